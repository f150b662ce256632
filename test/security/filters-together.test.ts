/** Filters of many sandboxes together leave the host room for the filters of sandboxes that start later. */

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { compiledFilters } from "../../src/runtime/linux/host/filter-watch.ts";
import { eventually } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { begin, firstLine, run, type User, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
const said: string[] = [];

const compiled = () => compiledFilters(readFileSync("/proc/vmallocinfo", "utf8"));
/** bytes of filters on the host that the runtime of this test allows: about twice those of one sandbox here */
const most = compiled() + (12 << 20);

beforeAll(async () => {
  host = await withRuntime(undo, { maxFilterBytes: most, logError: (error) => said.push(String(error)) });
});

/** installs as many of the longest filters as possible in many processes, prints how many, and keeps running */
const hold = `
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
code = [struct.pack("HBBI", 5, 0, 0, 4094)] + [struct.pack("HBBI", 0x34, 0, 0, 123456789)] * 4094 + [struct.pack("HBBI", 6, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4096, ctypes.addressof(text)))
libc.prctl(38, 1, 0, 0, 0)
reads, writes = os.pipe()
for _ in range(20):
    if os.fork() == 0:
        os.write(writes, bytes([sum(libc.syscall(number, 1, 0, program) == 0 for _ in range(7))]))
        os.close(writes)
        time.sleep(600)
os.close(writes)
with open(reads, "rb") as results: print(sum(results.read()), flush=True)
time.sleep(600)
`;
const holdIn = async (machine: Machine, user: User) => {
  const going = await begin(machine, user, ["python3", "-c", hold]);
  return { going, count: Number(await firstLine(going)) };
};

describe.each(users)("of %s", (user) => {
  test("processes with the most filters are ended and may not come back at once, and other sandboxes start", async () => {
    const machines = await Promise.all(Array.from({ length: 4 }, () => host.boot({ network: "deny-all" })));
    const before = await Promise.all(machines.map((machine) => holdIn(machine, user)));
    expect(before.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(128);
    await eventually("sandboxes to lose processes", async () => said.some((line) => line.includes("filters")));
    await eventually("room for others", async () => compiled() < most);
    const again = await Promise.all(machines.map((machine) => holdIn(machine, user)));
    expect(again.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(4 * 16);
    const fresh = await host.boot({ network: "deny-all" });
    expect((await run(fresh, user, ["echo", "started"])).out).toBe("started\n");
    await fresh.stop();
    await Promise.all(machines.map((machine) => machine.stop()));
    said.length = 0;
  });
});
