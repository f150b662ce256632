/** Sessions: state changes are compare-and-set, a sandbox shows its current session, and the row is the timer. */

import { describe, expect, test } from "vitest";
import type { Session } from "../../../src/core/model/sandbox.ts";
import type { Store } from "../../../src/core/ports/store.ts";
import { freshStore, newOwner, newSandbox, noon, type Pair, type StoreHost, sessionOf, unique } from "./host.ts";

const everything: Partial<Session> = {
  runtime: "node24",
  sourceSnapshotId: "snap_1",
  startedAt: noon + 1,
  expiresAt: noon + 2,
  lifetime: "idle",
  lastActivityAt: noon + 2,
  requestedStopAt: noon + 3,
  stoppedAt: noon + 4,
  abortedAt: noon + 5,
  snapshottedAt: noon + 6,
  duration: 7,
  cpuMs: 8,
  ingressBytes: 2 ** 52,
  egressBytes: 0,
  endCause: "out-of-memory",
  endReason: "It needed more than 4 GiB — “too much”",
};

export function sessionsSuite(host: () => StoreHost): void {
  describe("sessions", () => {
    test("every field of a session comes back as it was", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store);
      const next = sessionOf(sandbox, { ...everything, networkPolicy: { mode: "deny-all" }, env: { A: "ä" } });
      expect(await store.insertSession(next, session.id)).toBe(true);
      expect(await store.getSession(next.id)).toStrictEqual(next);
      expect(await store.findSessionByShortId(next.shortId)).toStrictEqual(next);
      expect(await store.getSession("sbx_none")).toBeUndefined();
      expect(await store.findSessionByShortId("none")).toBeUndefined();
    });

    test("many are found at once by their ids, each once, and none for an unknown id", async () => {
      const { store } = host();
      const made = await Promise.all([1, 2, 3].map(() => newSandbox(store)));
      const ids = made.map(({ session }) => session.id);
      const found = await store.getSessions([...ids, ids[0] ?? "", "sbx_nobody"]);
      expect(found.map(({ id }) => id).sort()).toEqual(ids.toSorted());
      expect(found).toContainEqual(made[0]?.session);
      expect(await store.getSessions([])).toEqual([]);
    });

    test("a further session is its sandbox's current one, with its state", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { state: "stopped" });
      const next = sessionOf(sandbox, { createdAt: noon + 50 });
      expect(await store.insertSession(next, session.id)).toBe(true);
      expect(await store.getSandbox(sandbox.id)).toStrictEqual({
        ...sandbox,
        currentSessionId: next.id,
        state: "pending",
        stateChangedAt: noon + 50,
      });
    });

    test("of many parallel resumes after one session, one wins, and the others leave nothing", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { state: "stopped" });
      const nexts = Array.from({ length: 8 }, () => sessionOf(sandbox));
      const won = await Promise.all(nexts.map((next) => store.insertSession(next, session.id)));
      expect(won.filter(Boolean)).toHaveLength(1);
      const winner = nexts[won.indexOf(true)];
      expect((await store.getSandbox(sandbox.id))?.currentSessionId).toBe(winner?.id);
      for (const loser of nexts.filter((next) => next !== winner))
        expect(await store.getSession(loser.id)).toBeUndefined();
    });

    test("a session cannot follow one that is not current, or of no sandbox", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store);
      expect(await store.insertSession(sessionOf(sandbox), "sbx_none")).toBe(false);
      expect(await store.insertSession(sessionOf(sandbox, { sandboxId: "none" }), session.id)).toBe(false);
      expect((await store.getSandbox(sandbox.id))?.currentSessionId).toBe(session.id);
    });
  });

  describe("moving a session", () => {
    test("changes its state and the other given fields, and its sandbox shows the state", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store);
      const changes = { startedAt: noon + 1, expiresAt: noon + 100, updatedAt: noon + 2 };
      const moved = await store.moveSession(session.id, ["pending"], "running", changes);
      expect(moved).toStrictEqual({ ...session, ...changes, state: "running" });
      expect(await store.getSession(session.id)).toStrictEqual(moved);
      expect(await store.getSandbox(sandbox.id)).toStrictEqual({
        ...sandbox,
        state: "running",
        stateChangedAt: noon + 2,
      });
      const stopped = await store.moveSession(session.id, ["running"], "stopped", { expiresAt: undefined });
      expect(stopped).not.toHaveProperty("expiresAt");
    });

    test("does nothing from another state, or when there is no such session", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store);
      expect(await store.moveSession(session.id, ["running", "stopping"], "stopped", { duration: 5 })).toBeUndefined();
      expect(await store.moveSession("sbx_none", ["pending"], "running", {})).toBeUndefined();
      expect(await store.getSession(session.id)).toStrictEqual(session);
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
    });

    test("succeeds for one of many callers", async () => {
      const { store } = host();
      const { session } = await newSandbox(store, { state: "running" });
      const moves = await Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          store.moveSession(session.id, ["running"], i % 2 ? "stopping" : "snapshotting", {
            requestedStopAt: noon + i,
          }),
        ),
      );
      const done = moves.filter((moved) => moved !== undefined);
      expect(done).toHaveLength(1);
      expect(await store.getSession(session.id)).toStrictEqual(done[0]);
    });

    test("of an old session does not change the state of the sandbox", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { state: "stopping" });
      const next = sessionOf(sandbox);
      await store.insertSession(next, session.id);
      await store.moveSession(next.id, ["pending"], "running", { updatedAt: noon + 5 });
      await store.moveSession(session.id, ["stopping"], "stopped", { updatedAt: noon + 9 });
      expect(await store.getSandbox(sandbox.id)).toMatchObject({ state: "running", stateChangedAt: noon + 5 });
    });

    test("during a resume leaves the sandbox with the state of its current session", async () => {
      const { store } = host();
      for (let round = 0; round < 10; round++) {
        const { sandbox, session } = await newSandbox(store, { state: "stopping" });
        const next = sessionOf(sandbox);
        await Promise.all([
          store.moveSession(session.id, ["stopping"], "stopped", {}),
          store.insertSession(next, session.id),
          store.updateSandbox(sandbox.id, { timeout: 5, tags: { a: "b" } }),
          store.addTotals(session.id),
        ]);
        expect(await store.getSandbox(sandbox.id)).toMatchObject({ currentSessionId: next.id, state: "pending" });
      }
    });

    test("keeps the reason of an end, whatever its text", async () => {
      const { store } = host();
      const { session } = await newSandbox(store);
      const moved = await store.moveSession(session.id, ["pending"], "failed", { endReason: "bad \0 and \ud800" });
      expect(moved?.endReason).toBe("bad \ufffd and \ufffd");
    });
  });

  describe("updating a session", () => {
    test("changes it only in the states that were named", async () => {
      const { store } = host();
      const { session } = await newSandbox(store, { state: "running" });
      const updated = await store.updateSession(session.id, ["running"], { timeout: 9, expiresAt: noon + 9 });
      expect(updated).toStrictEqual({ ...session, timeout: 9, expiresAt: noon + 9 });
      expect(await store.updateSession(session.id, ["pending", "stopping"], { timeout: 10 })).toBeUndefined();
      expect(await store.updateSession("sbx_none", ["running"], { timeout: 10 })).toBeUndefined();
      expect(await store.updateSession(session.id, ["running"], {})).toStrictEqual(updated);
    });
  });

  describe("totals", () => {
    const use = { cpuMs: 10, duration: 20, ingressBytes: 30, egressBytes: 40 };

    async function ended(store: Store, { session }: Pair): Promise<void> {
      await store.moveSession(session.id, ["pending"], "stopped", use);
    }

    test("a session's usage is added to its sandbox's totals once, however often that is requested", async () => {
      const { store } = host();
      const pair = await newSandbox(store, { totals: { egressBytes: 1, ingressBytes: 2, cpuMs: 3, durationMs: 4 } });
      await ended(store, pair);
      await Promise.all([1, 2, 3, 4].map(() => store.addTotals(pair.session.id)));
      await store.addTotals(pair.session.id);
      const totals = { egressBytes: 41, ingressBytes: 32, cpuMs: 13, durationMs: 24 };
      expect(await store.getSandbox(pair.sandbox.id)).toMatchObject({ totals });
    });

    test("an end that counts the session stores both together, once and only from the named states", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { state: "stopping" });
      expect(await store.endSession(session.id, ["running"], "stopped", use)).toBeUndefined();
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
      const end = await store.endSession(session.id, ["stopping"], "stopped", { ...use, updatedAt: noon + 9 });
      expect(end).toStrictEqual({ ...session, ...use, state: "stopped", updatedAt: noon + 9 });
      expect(await store.endSession(session.id, ["stopping"], "stopped", use)).toBeUndefined();
      await store.addTotals(session.id);
      expect(await store.uncountedSessions()).not.toContain(session.id);
      const totals = { egressBytes: 40, ingressBytes: 30, cpuMs: 10, durationMs: 20 };
      const after = { totals, state: "stopped", stateChangedAt: noon + 9 };
      expect(await store.getSandbox(sandbox.id)).toMatchObject(after);
    });

    test("every session of a sandbox counts, and one that used nothing adds nothing", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      await ended(store, pair);
      const next = sessionOf(pair.sandbox, { ...use, state: "stopped" });
      const idle = sessionOf(pair.sandbox, { state: "failed" });
      await store.insertSession(next, pair.session.id);
      await store.insertSession(idle, next.id);
      await Promise.all([pair.session.id, next.id, idle.id, "sbx_none"].map((id) => store.addTotals(id)));
      const totals = { egressBytes: 80, ingressBytes: 60, cpuMs: 20, durationMs: 40 };
      expect(await store.getSandbox(pair.sandbox.id)).toMatchObject({ totals });
    });
  });

  describe("the timer", () => {
    test("running sessions whose time is over are due, soonest first, and no others", async () => {
      const store = await freshStore(host());
      const owner = await newOwner(store);
      expect(await store.nextExpiry()).toBeUndefined();
      expect(await store.dueSessions(noon, 10)).toEqual([]);
      const begin = async (state: Session["state"], expiresAt: number) => {
        const { session } = await newSandbox(store, { owner, state });
        await store.updateSession(session.id, [state], { expiresAt });
        return session.id;
      };
      const late = await begin("running", noon + 30);
      const soon = await begin("running", noon + 10);
      const exact = await begin("running", noon + 20);
      await begin("stopping", noon);
      await begin("pending", noon);
      await newSandbox(store, { owner, state: "running" });
      const due = async (now: number, limit = 10) => (await store.dueSessions(now, limit)).map(({ id }) => id);
      expect(await store.nextExpiry()).toBe(noon + 10);
      expect(await due(noon + 9)).toEqual([]);
      expect(await due(noon + 20)).toEqual([soon, exact]);
      expect(await due(noon + 99)).toEqual([soon, exact, late]);
      expect(await due(noon + 99, 2)).toEqual([soon, exact]);
      await store.moveSession(soon, ["running"], "stopping", {});
      expect(await store.nextExpiry()).toBe(noon + 20);
      expect(await due(noon + 99)).toEqual([exact, late]);
    });

    test("sessions that are not over are open, of every team, also when their sandbox is deleted", async () => {
      const store = await freshStore(host());
      const open: string[] = [];
      const states = ["pending", "running", "snapshotting", "stopping", "stopped", "failed", "aborted"] as const;
      for (const [index, state] of states.entries()) {
        const { sandbox, session } = await newSandbox(store, { state, createdAt: noon + index });
        if (index < 4) open.push(session.id);
        if (state === "stopping") await store.deleteSandbox(sandbox.id, noon);
      }
      expect((await store.openSessions()).map(({ id }) => id)).toEqual(open);
    });

    test("runs of sessions have their start and end, in a part of the list, the open ones always", async () => {
      const store = await freshStore(host());
      const owner = await newOwner(store);
      const begin = async ({ createdAt = noon, state = "running", ...changes }: Partial<Session>) => {
        const { session } = await newSandbox(store, { owner, state, createdAt });
        await store.updateSession(session.id, [state], changes);
      };
      await begin({ createdAt: noon - 500, startedAt: noon - 400 });
      await begin({ createdAt: noon - 500, startedAt: noon - 400, state: "stopped", stoppedAt: noon - 300 });
      await begin({ createdAt: noon + 10, startedAt: noon + 20, state: "stopped", stoppedAt: noon + 30 });
      await begin({ createdAt: noon + 11, startedAt: noon + 21, state: "aborted", abortedAt: noon + 31 });
      await begin({ createdAt: noon + 12, startedAt: noon + 22, state: "failed", updatedAt: noon + 32 });
      await begin({ createdAt: noon + 13, startedAt: noon + 23, state: "paused", pausedAt: noon + 33 });
      await newSandbox(store, { owner, state: "pending", createdAt: noon + 14 });
      await newSandbox(store, { state: "running", createdAt: noon + 15 });
      const runs = async (limit: number) => {
        const found = await store.sessionRuns({ ...owner, after: noon, before: noon + 1000, limit });
        return found.map(({ startedAt, endedAt }) => [startedAt - noon, endedAt && endedAt - noon]).sort();
      };
      const open = [
        [-400, undefined],
        [23, 33],
      ];
      const over = [
        [20, 30],
        [21, 31],
        [22, 32],
      ];
      expect(await runs(10)).toEqual([...open, ...over].sort());
      expect(await runs(2)).toEqual([...open, [22, 32]].sort());
    });

    test("ended sessions are listed as uncounted until they are counted", async () => {
      const store = await freshStore(host());
      const { session } = await newSandbox(store, { state: "running", name: unique("n-") });
      expect(await store.uncountedSessions()).toEqual([]);
      await store.moveSession(session.id, ["running"], "stopped", { duration: 5 });
      expect(await store.uncountedSessions()).toEqual([session.id]);
      await store.addTotals(session.id);
      expect(await store.uncountedSessions()).toEqual([]);
    });
  });
}
