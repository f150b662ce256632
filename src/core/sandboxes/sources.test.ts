/** The error of a source that cannot be fetched: what the program said, and why its connection was refused. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { EgressLine } from "../network/egress-log.ts";
import type { EgressJournal, Machine } from "../ports/runtime.ts";
import { fetchSource } from "./sources.ts";

const url = "http://10.1.2.3/repo.git";
const failed = `Cannot clone "${url}": fatal: unable to access '${url}': Connection refused`;

test("the error names the setting that would open a refused address, as the egress log does", async () => {
  const reason = "10.1.2.3 is private (SANDKEEP_EGRESS_ALLOW=10.1.2.3/32 would open it)";
  const refused = { allowed: false, reason } as const;
  await expect(clone([line(1, { allowed: true }), line(2, refused)])).rejects.toMatchObject({
    code: "invalid",
    message: `${failed}. ${reason}`,
  });
});

test("without a refused connection, or without a log, the error is what the program said", async () => {
  await expect(clone([line(1, { allowed: true })])).rejects.toThrow(/Connection refused$/);
  await expect(clone(undefined)).rejects.toMatchObject({ message: failed });
});

function line(id: number, decision: { allowed: boolean; reason?: string }): EgressLine {
  return { id, at: 0, count: 1, ended: 0, bytesIn: 0, bytesOut: 0, protocol: "http", ...decision };
}

async function clone(lines: EgressLine[] | undefined): Promise<void> {
  const said = new TextEncoder().encode(`fatal: unable to access '${url}': Connection refused\n`);
  // The fetch uses nothing else of a machine, a journal and a context.
  const machine = {
    id: "m",
    exec: async () => ({
      output: async function* () {
        yield { stream: "stderr", data: said, offset: 0 };
      },
      exited: Promise.resolve({ code: 128 }),
    }),
  } as unknown as Machine;
  const journal = lines && ({ lines: async () => ({ lines, more: false }) } as unknown as EgressJournal);
  const seal = { seal: (text: string) => text, open: (text: string) => text };
  const context = { seal, runtime: { egress: () => journal } } as unknown as Parameters<typeof fetchSource>[0];
  await fetchSource(context, machine, { ...session, env: {} }, { kind: "git", url });
}
