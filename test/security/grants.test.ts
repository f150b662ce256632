/** Calls that the agent makes for programs: whatever happens to the process that makes them, every caller gets an answer. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { withRuntime } from "../harness/machine.ts";
import { begin, firstLine, nativeProgram, shell } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let machine: Machine;

beforeAll(async () => {
  const host = await withRuntime(undo);
  machine = await host.boot({ network: "deny-all" });
});

/** kills each process of the agent, except commands, as soon as it exists */
const killer = `
import os
print("ready", flush=True)
children = os.open("/proc/1/task/1/children", os.O_RDONLY)
while True:
    for pid in map(int, os.pread(children, 65536, 0).split()):
        try:
            if b"sandkeep" in open(f"/proc/{pid}/comm", "rb").read(): os.kill(pid, 9)
        except OSError: pass
`;

/** how many calls were answered, and how many processes began meanwhile */
const calls = `
import os, time
last = lambda: int(open("/proc/sys/kernel/ns_last_pid").read())
before, answered = last(), 0
for _ in range(200):
    try: os.statvfs("/")
    except OSError as error: assert error.errno == 12, error
    answered += 1
print(answered, last() - before)
`;

test("a process that always dies at once is not restarted for ever: its callers are refused", async () => {
  const { stdout } = await promisify(execFile)(await nativeProgram("grants_test"));
  // Three are tried for the first call, and one for each of the others.
  expect(stdout).toBe("10 of 10 calls failed, 12 processes\n");
});

test("while root inside kills the process again and again, every call is answered", async () => {
  const calling = await begin(machine, "1000", ["sh", "-c", 'read line; exec python3 -c "$0"', calls], { stdin: true });
  const killing = await begin(machine, "root", ["python3", "-c", killer]);
  expect(await firstLine(killing)).toBe("ready\n");
  await calling.write(Buffer.from("go\n"));
  const [answered = 0, began = 0] = (await firstLine(calling)).split(" ").map(Number);
  expect(answered).toBe(200);
  expect(began).toBeLessThanOrEqual(3 + 200);
  await killing.signal(9);
  await killing.exited;
  expect(await shell(machine, "1000", "df --output=target / | tail -1")).toBe("/\n");
});
