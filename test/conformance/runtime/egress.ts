/** The outbound connections of a machine are logged: while it runs, after it has ended, and until it is forgotten. */

import { describe, expect, test } from "vitest";
import type { EgressLine } from "../../../src/core/network/egress-log.ts";
import type { MachineNetwork } from "../../../src/core/ports/runtime.ts";
import { bootFor, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { python, start, until } from "./run.ts";

/** no name that programs here look up is allowed, so no lookup leaves this machine */
const network: MachineNetwork = {
  mode: "custom",
  domains: [{ domain: "allowed.invalid", rules: [] }],
  allowedCidrs: [],
  deniedCidrs: [],
};
const ask = (name: string) => `
import socket
try: socket.getaddrinfo("${name}", 443, socket.AF_INET)
except OSError: pass`;

const echoServer = `
import socket, threading
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
def echo(c):
    while data := c.recv(65536): c.sendall(2 * data)
    c.close()
while True: threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()`;

export function egressSuite(host: () => RuntimeHost): void {
  describe("egress journal", () => {
    provesNothingIsLeft(host);

    test("has all decisions made before it is read, also after the machine ended, until it is forgotten", async () => {
      const machine = await bootFor(host(), { network });
      const read = (after = 0) => host().runtime.egress(machine.id)?.lines({ after, limit: 100 });
      expect(await read()).toEqual({ lines: [], more: false });
      await python(machine, ask("one.invalid"));
      const first = await read();
      expect(first?.lines[0]).toMatchObject({ id: 1, protocol: "dns", name: "one.invalid", allowed: false, count: 1 });
      await python(machine, ask("two.invalid"));
      const position = first?.lines.at(-1)?.id ?? 0;
      expect((await read(position))?.lines[0]).toMatchObject({ id: position + 1, name: "two.invalid" });
      await machine.stop();
      const all = await read();
      await host().reopen();
      expect(await read()).toEqual(all);
      expect(await host().runtime.egress(machine.id)?.hosts()).toEqual([]);
      await host().runtime.forget(machine.id);
      expect(host().runtime.egress(machine.id)).toBeUndefined();
    });

    test("can be followed until the machine ends, and read again after that", async () => {
      const machine = await bootFor(host(), { network });
      const journal = host().runtime.egress(machine.id);
      const following = gathered(journal?.follow({ after: 0 }));
      await python(machine, ask("one.invalid"));
      await machine.stop();
      const lines = await following;
      expect(lines[0]).toMatchObject({ id: 1, name: "one.invalid" });
      expect(await gathered(journal?.follow({ after: 0 }))).toEqual(lines);
      expect(await gathered(journal?.follow({ after: 1 }))).toEqual(lines.slice(1));
    });

    test("has the bytes of each port, while a connection is open, after a new start and after the end", async () => {
      const machine = await bootFor(host(), { network: "deny-all" });
      const ports = () => host().runtime.egress(machine.id)?.ports();
      expect(await ports()).toEqual([]);
      const server = await start(machine, ["python3", "-u", "-c", echoServer]);
      const port = Number(await until(server.output(), "\n"));
      const first = await machine.connect(port);
      first.write("12345");
      await new Promise((resolve) => first.once("data", resolve));
      expect(await ports()).toEqual([{ port, connections: 1, bytesIn: 5, bytesOut: 10 }]);
      await host().reopen();
      const second = await host().runtime.machine(machine.id)?.connect(port);
      second?.end("1");
      for await (const _ of second ?? []);
      const both = [{ port, connections: 2, bytesIn: 6, bytesOut: 12 }];
      expect(await ports()).toEqual(both);
      await host().runtime.machine(machine.id)?.stop();
      expect(await ports()).toEqual(both);
      first.destroy();
    });

    test("does not exist for an unknown machine", () => {
      expect(host().runtime.egress("nobody")).toBeUndefined();
    });
  });
}

async function gathered(lines: AsyncIterable<EgressLine> | undefined): Promise<EgressLine[]> {
  return lines ? Array.fromAsync(lines) : [];
}
