/** What a machine wanted of the world is written down: while it runs, after it has ended, and until it is forgotten. */

import { describe, expect, test } from "vitest";
import type { EgressLine } from "../../../src/core/egress-log.ts";
import type { MachineNetwork } from "../../../src/core/runtime.ts";
import { bootFor, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { python } from "./run.ts";

/** of the names that programs ask for here none is allowed, so that none leaves this machine */
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

export function egressSuite(host: () => RuntimeHost): void {
  describe("egress journal", () => {
    provesNothingIsLeft(host);

    test("has what was decided before it is read, also after the machine ended and until it is forgotten", async () => {
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

    test("can be followed until the machine ends, and after that once more", async () => {
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

    test("of a machine that nobody knows there is none", () => {
      expect(host().runtime.egress("nobody")).toBeUndefined();
    });
  });
}

async function gathered(lines: AsyncIterable<EgressLine> | undefined): Promise<EgressLine[]> {
  return lines ? Array.fromAsync(lines) : [];
}
