/** The daemon's line to egress processes of its own version and of others. */

import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { noEgressSettings } from "../../../core/ports/egress-settings.ts";
import { egressControlVersion } from "../../../protocols/egress-control.ts";
import { EgressLink } from "./egress-link.ts";

const policy = { mode: "custom" as const, domains: [], allowedCidrs: [], deniedCidrs: [] };

test("a process of this version, and one of the version before, which does not greet, obey", async () => {
  for (const greeting of [`{"v":${egressControlVersion}}\n`, ""]) {
    const { link, orders } = await linked(greeting, () => ({}));
    await link.configured();
    await link.set("m0", policy);
    expect(orders).toEqual(["settings", "set"]);
  }
});

test("what an older process refuses is told with its version", async () => {
  const { link } = await linked("", (kind) => (kind === "set" ? { error: "it does not understand the order" } : {}));
  await link.configured();
  await expect(link.set("m0", policy)).rejects.toThrow(
    "Cannot change the network policy: it does not understand the order; the egress process is of an older version",
  );
});

test("a newer process is given no orders, and a sentence says why", async () => {
  const { link, logged } = await linked('{"v":99}\n', undefined);
  const why = "the egress process is of a newer version of Sandkeep: it speaks version 99 of the orders, the daemon 2";
  await expect(link.configured()).rejects.toThrow(
    `Cannot give the network settings to the egress process that runs: ${why}`,
  );
  await expect(link.set("m0", policy)).rejects.toThrow(`Cannot change the network policy: ${why}`);
  expect(logged).toHaveLength(1);
});

test("a line that cannot be understood harms nobody", async () => {
  const { link } = await linked('{"v":2}\nnot JSON\n{"later":1}\n', () => ({}));
  await link.configured();
});

/** with a process that greets so, and answers each kind of order so; or with nothing */
async function linked(greeting: string, answer: ((kind: string) => object) | undefined) {
  const path = join(await tempDir(), "egress.sock");
  const orders: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.write(greeting);
    createInterface(socket).on("line", (line) => {
      const { id, kind } = JSON.parse(line);
      orders.push(kind);
      if (answer) socket.write(`${JSON.stringify({ id, ...answer(kind) })}\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const logged: unknown[] = [];
  const link = new EgressLink({
    socket: path,
    settings: noEgressSettings,
    logError: (error) => logged.push(error),
    commandOf: () => undefined,
  });
  link.open();
  onTestFinished(() => {
    link.close();
    server.close();
  });
  return { link, orders, logged };
}
