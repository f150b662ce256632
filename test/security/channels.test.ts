/** No sandbox notices what another does: tries every covert channel of guest/test/channel.c between two sandboxes. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { withRuntime } from "../harness/machine.ts";
import { begin, firstLine, install, run, shell, type User, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let sender: Machine;
let receiver: Machine;
let channel: string;

beforeAll(async () => {
  const host = await withRuntime(undo);
  [sender, receiver] = await Promise.all([host.boot({ network: "deny-all" }), host.boot({ network: "deny-all" })]);
  await install(sender, "channel");
  channel = await install(receiver, "channel");
});

describe.each(users)("of %s", (user) => {
  test("nothing done in one sandbox is visible in another", async () => {
    expect(await marks(sender, receiver, user)).toEqual([]);
  });

  test("the same is visible within one sandbox, so that the test above can fail", async () => {
    const kinds = new Set((await marks(receiver, receiver, user)).map((mark) => mark.split(" ")[0]));
    expect([...kinds].sort()).toEqual(["abstract", "event", "flock", "listed", "lock", "posix", "sysv", "times"]);
  });

  test("no file of /proc/net changes with a neighbour's traffic", async () => {
    let changed: string[] | undefined;
    // A socket of the runtime itself may come or go once; what traffic changes, it changes every time.
    for (let round = 0; round < 3 && changed?.length !== 0; round++) {
      const before = await networkFiles(receiver, user);
      expect(Object.keys(before).length).toBeGreaterThan(20);
      expect(await shell(sender, user, `python3 -c '${traffic}'`)).toBe("200\n");
      const after = await networkFiles(receiver, user);
      changed = Object.keys(before).filter((file) => before[file] !== after[file]);
    }
    expect(changed).toEqual([]);
  });

  test("the masks over files of /proc cannot be changed", async () => {
    for (const change of [
      "touch -c /proc/keys",
      "chmod 777 /proc/keys",
      "chmod 444 /proc/self/net/softnet_stat",
      "echo x > /proc/sysrq-trigger",
      "touch /dev/x",
    ])
      expect(`${change}: ${(await run(receiver, user, ["sh", "-c", change])).code !== 0}`).toBe(`${change}: true`);
    expect(await shell(receiver, user, "cat /proc/keys /proc/kallsyms | wc -c")).toBe("0\n");
  });
});

test("devices belong to the sandbox's root and work for its plain user", async () => {
  expect(await shell(receiver, "1000", "stat -c '%U:%G %a' /dev/null /dev/urandom /dev/tty | sort -u")).toBe(
    "root:root 666\n",
  );
  expect(await shell(receiver, "1000", "echo x > /dev/null && head -c 4 /dev/urandom | wc -c")).toBe("4\n");
});

/** connections within a sandbox, and packets on them; it prints how many are open */
const traffic = `
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=256)
pairs = []
for _ in range(200):
    client = socket.create_connection(server.getsockname())
    client.send(b"x" * 65536)
    pairs.append((client, server.accept()))
print(len(pairs))
`;

/** the readable files of /proc/net, and their contents */
async function networkFiles(machine: Machine, user: User): Promise<Record<string, string>> {
  const list =
    "cd /proc/self/net/ && find . -type f | sort | while read -r file; do cat $file 2>/dev/null | md5sum | sed s,-,$file,; done";
  const lines = (await shell(machine, user, list)).trim().split("\n");
  return Object.fromEntries(lines.map((line) => line.split(/\s+/).toReversed()));
}

let runs = 0;

/** the marks of the sender that the receiver finds */
async function marks(from: Machine, to: Machine, user: User): Promise<string[]> {
  const run = String(++runs);
  const receiving = await begin(to, user, [channel, "receive", run], { stdin: true });
  expect(await firstLine(receiving)).toBe("ready\n");
  const sending = await begin(from, user, [channel, "send", run]);
  expect(await firstLine(sending)).toBe("sent\n");
  await receiving.write(Buffer.from("look\n"));
  let said = "";
  for await (const chunk of receiving.output()) said += Buffer.from(chunk.data).toString();
  await sending.signal(9);
  await sending.exited;
  const lines = said.trim().split("\n");
  expect(lines.at(-1)).toBe("done");
  return lines.slice(1, -1);
}
