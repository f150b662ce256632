/** Tests of who may read an egress log, and of sessions without one. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { EgressJournal } from "../ports/runtime.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { type EgressLine, EgressLogs, type HostTraffic, type PortTraffic } from "./egress-log.ts";

const caller = { teamId: session.teamId };
const all = { after: 0, limit: 10 };

test("a page has the position to continue from, and the busiest hosts and ports first", async () => {
  const hosts: HostTraffic[] = [
    { host: "b.test", connections: 1, bytesIn: 1, bytesOut: 1 },
    { host: "a.test", connections: 1, bytesIn: 5, bytesOut: 1 },
  ];
  const ports: PortTraffic[] = [4000, 3000, 5000].map((port) => ({
    port,
    connections: 1,
    bytesIn: 1,
    bytesOut: port === 5000 ? 2 : 1,
  }));
  const logs = logsOf(session, journalOf([line(4), line(5)], hosts, ports));
  const page = await logs.page(caller, session.id, { after: 3, limit: 1 });
  expect(page).toMatchObject({ lines: [line(4)], next: 4, more: true, totals: { ingressBytes: 7, egressBytes: 8 } });
  expect(page.hosts.map(({ host }) => host)).toEqual(["a.test", "b.test"]);
  expect(page.ports.map(({ port }) => port)).toEqual([5000, 3000, 4000]);
  expect(await logs.page(caller, session.id, { after: 5, limit: 1 })).toMatchObject({
    lines: [],
    next: 5,
    more: false,
  });
});

test("an expired log is gone; the log of a session that never ran, or is about to, is empty", async () => {
  for (const state of ["stopped", "aborted"] as const) {
    const logs = logsOf({ ...session, state }, undefined);
    for (const attempt of [
      logs.page(caller, session.id, all),
      logs.follow(caller, session.id, all),
      logs.suggestion(caller, session.id),
    ]) {
      await expect(attempt).rejects.toMatchObject({ code: "gone" });
    }
  }
  for (const state of ["failed", "pending"] as const) {
    const logs = logsOf({ ...session, state }, undefined);
    expect((await logs.page(caller, session.id, all)).lines).toEqual([]);
    expect(await Array.fromAsync(await logs.follow(caller, session.id, all))).toEqual([]);
    expect((await logs.suggestion(caller, session.id)).policy.domains).toEqual([]);
  }
});

test("a suggestion covers all lines, however many there are", async () => {
  const lines = Array.from({ length: 2500 }, (_, i) => ({ ...line(i + 1), name: `n${i % 300}.test` }));
  const { policy } = await logsOf(session, journalOf(lines, [])).suggestion(caller, session.id);
  expect(policy.domains).toHaveLength(300);
});

test("the log of another team's session is not found", async () => {
  const logs = logsOf(session, journalOf([line(1)], []));
  const other = { teamId: "team_other" };
  for (const attempt of [
    logs.page(other, session.id, all),
    logs.follow(other, session.id, all),
    logs.suggestion(other, session.id),
  ]) {
    await expect(attempt).rejects.toMatchObject({ code: "not-found" });
  }
});

function logsOf(known: Session, journal: EgressJournal | undefined): EgressLogs {
  const sessions = {
    async get({ teamId }: { teamId: string }) {
      if (teamId !== known.teamId) throw new SandkeepError("not-found", "Session not found");
      return known;
    },
    usage: async () => ({ ingressBytes: 7, egressBytes: 8 }),
  };
  // The logs use nothing else of both.
  const context = { runtime: { egress: () => journal } } as unknown as Context;
  return new EgressLogs(context, sessions as unknown as Sessions, async () => undefined);
}

function journalOf(lines: EgressLine[], hosts: HostTraffic[], ports: PortTraffic[] = []): EgressJournal {
  const from = (after: number) => lines.filter(({ id }) => id > after);
  return {
    lines: async ({ after, limit }) => ({ lines: from(after).slice(0, limit), more: from(after).length > limit }),
    async *follow({ after }) {
      yield* from(after);
    },
    newest: async ({ limit, refused, isWanted }) =>
      lines
        .filter((each) => "protocol" in each)
        .filter((each) => !refused || !each.allowed)
        .toReversed()
        .filter(isWanted)
        .slice(0, limit),
    changedAt: async () => lines.at(-1)?.at,
    hosts: async () => hosts,
    ports: async () => ports,
  };
}

function line(id: number): EgressLine {
  const decision = { protocol: "dns", name: "a.test", type: "A", allowed: true } as const;
  return { id, at: 1, ...decision, count: 1, ended: 0, bytesIn: 0, bytesOut: 0 };
}
