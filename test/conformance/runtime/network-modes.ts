/** Changing the network of a running machine: its connections inside must not break, and the change is kept. */

import { describe, expect, test } from "vitest";
import type { Machine } from "../../../src/core/ports/runtime.ts";
import { bootFor, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { python, start, until } from "./run.ts";

export function networkModesSuite(host: () => RuntimeHost): void {
  describe("network modes", () => {
    provesNothingIsLeft(host);

    test("can be switched back and forth, and the machine remembers the last", async () => {
      const machine = await bootFor(host(), { network: "deny-all" });
      expect(machine.spec.network).toBe("deny-all");
      for (const mode of ["allow-all", "deny-all", "deny-all", "allow-all", "deny-all"] as const) {
        await machine.setNetwork(mode);
        expect(machine.spec.network).toBe(mode);
        expect(await talksToItself(machine)).toBe(true);
      }
      await host().reopen();
      const again = host().runtime.machine(machine.id);
      expect(again?.spec.network).toBe("deny-all");
      await again?.setNetwork("allow-all");
      expect(again?.spec.network).toBe("allow-all");
    });

    test("an open connection to a port inside survives a switch", async () => {
      const machine = await bootFor(host());
      const server = await start(machine, ["python3", "-u", "-c", echoServer]);
      const port = Number(await until(server.output(), "\n"));
      const stream = await machine.connect(port);
      const received: string[] = [];
      stream.on("data", (chunk: Buffer) => received.push(chunk.toString()));
      for (const mode of ["deny-all", "allow-all", "deny-all"] as const) {
        await machine.setNetwork(mode);
        const answered = new Promise((resolve) => stream.once("data", resolve));
        stream.write(mode);
        await answered;
      }
      expect(received.join(" ")).toBe("deny-all allow-all deny-all");
      stream.destroy();
    });

    test("nothing outside is reachable while everything is denied, and bytes are counted in both modes", async () => {
      const machine = await bootFor(host(), { network: "deny-all" });
      const attempt =
        "import socket\ntry: socket.create_connection(('203.0.113.1', 80), 2); print('reached')\nexcept OSError: print('refused')";
      expect((await python(machine, attempt)).stdout).toBe("refused\n");
      const before = (await machine.usage()).network;
      await machine.setNetwork("allow-all");
      const after = (await machine.usage()).network;
      expect(after.sent).toBeGreaterThanOrEqual(before.sent);
      expect(after.received).toBeGreaterThanOrEqual(before.received);
    });

    test("many machines switch at once", async () => {
      const machines = await Promise.all(Array.from({ length: 8 }, () => bootFor(host())));
      await Promise.all(machines.map((machine) => machine.setNetwork("deny-all")));
      await Promise.all(machines.map((machine) => machine.setNetwork("allow-all")));
      expect(await Promise.all(machines.map(talksToItself))).toEqual(machines.map(() => true));
    });
  });
}

const echoServer = `
import socket
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
c, _ = s.accept()
while data := c.recv(65536): c.sendall(data)`;

/** loopback works in every mode */
async function talksToItself(machine: Machine): Promise<boolean> {
  const script = `
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"hi"), daemon=True).start()
print(socket.create_connection(s.getsockname(), 5).recv(2).decode())`;
  return (await python(machine, script)).stdout === "hi\n";
}
