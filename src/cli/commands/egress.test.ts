/** `sandkeep egress` and `sandkeep key` when the daemon refuses: a sentence about what was asked, and nothing else. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { egressCommand } from "./egress.ts";
import { keyCommand } from "./key.ts";

test("a log that is not there has no table, and the sentence names what was asked", async () => {
  const context = await refusing("Sandbox not found.");
  await expect(egressCommand(["nobody"], context)).rejects.toThrow(/^Cannot show the egress log: Sandbox not found\.$/);
  expect(context.lines).toEqual([]);
});

test("a key that is not there is a sentence about the key", async () => {
  const context = await refusing("Key not found.");
  await expect(keyCommand(["rm", "nosuch"], context)).rejects.toThrow(
    /^Cannot revoke the key "nosuch": Key not found\.$/,
  );
  await expect(keyCommand(["ls"], context)).rejects.toThrow(/^Cannot list the keys: Key not found\.$/);
});

test("a misspelt verb of key is answered with the one that was meant", async () => {
  const context = await refusing("");
  await expect(keyCommand(["creat", "ci"], context)).rejects.toThrow(
    /^Cannot do "key creat ci": there is no such command\. Did you mean "create"\?\n\nUsage/,
  );
  await expect(keyCommand(["create"], context)).rejects.toThrow(/^Cannot do "key create"\n\nUsage/);
});

/** the world of a command whose daemon has nothing of what it is asked for */
async function refusing(message: string) {
  const server = createServer(
    (_, response) => void response.writeHead(404).end(JSON.stringify({ error: { message } })),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const lines: string[] = [];
  const { port } = server.address() as AddressInfo;
  return {
    environment: { SANDKEEP_API_KEY: "sk_x", SANDKEEP_PORT: String(port) },
    dataDirs: [],
    now: Date.now,
    lines,
    print: (line: string) => void lines.push(line),
    warn: () => undefined,
  };
}
