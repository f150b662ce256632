/** Tests of `sandkeep egress` and `sandkeep key` when the daemon refuses: the error says only what was asked. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { egressCommand } from "./egress.ts";
import { keyCommand } from "./key.ts";

test("a missing log prints no table, and the error names the request", async () => {
  const context = await refusing("Sandbox not found.");
  await expect(egressCommand(["nobody"], context)).rejects.toThrow(/^Cannot show the egress log: Sandbox not found\.$/);
  expect(context.lines).toEqual([]);
});

test("a missing key is an error about that key", async () => {
  const context = await refusing("Key not found.");
  await expect(keyCommand(["rm", "nosuch"], context)).rejects.toThrow(
    /^Cannot delete the key "nosuch": Key not found\.$/,
  );
  for (const verb of ["ls", "list"])
    await expect(keyCommand([verb], context)).rejects.toThrow(/^Cannot list the keys: Key not found\.$/);
  for (const verb of ["delete", "remove"])
    await expect(keyCommand([verb, "nosuch"], context)).rejects.toThrow(/^Cannot delete the key "nosuch": Key not/);
});

test("a misspelt verb of key suggests the right one", async () => {
  const context = await refusing("");
  await expect(keyCommand(["creat", "ci"], context)).rejects.toThrow(
    /^Cannot do "key creat": there is no such command\. Did you mean "create"\?\n\nUsage/,
  );
  await expect(keyCommand(["create"], context)).rejects.toThrow(/^Cannot do "key create": it takes one name\n\nUsage/);
  await expect(keyCommand([], context)).rejects.toThrow(
    /^Cannot do "key": it must be followed by create, ls, rename, rm\n/,
  );
  await expect(egressCommand([], context)).rejects.toThrow(/^Cannot show an egress log: name one sandbox or session\n/);
});

/** the context of a command whose daemon answers 404 to everything */
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
    output: process.stdout,
    print: (line: string) => void lines.push(line),
    warn: () => undefined,
  };
}
