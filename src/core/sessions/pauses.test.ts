/** Tests of pauses: what they change in a session, and what happens when a step of them fails. */

import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import type { Context } from "../context.ts";
import { Events } from "../events/events.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Session, SessionState } from "../model/sandbox.ts";
import type { Captures } from "../snapshots/captures.ts";
import type { Endings } from "./end.ts";
import { ranFor } from "./lifetime.ts";
import { Pauses, pauseOf, resumeOf } from "./pauses.ts";
import { Transitions } from "./transitions.ts";

const running = {
  id: "sbx_1",
  projectId: "prj_1",
  sandboxId: "sandbox_1",
  sandboxName: "one",
  networkPolicy: { mode: "allow-all" },
  state: "running",
  timeout: 1000,
  requestedAt: 0,
  startedAt: 100,
  expiresAt: 1100,
} as Session;

test("a resume gives the time that was left at the pause, or the time that its caller names", () => {
  const paused = { ...running, ...pauseOf(running, { timeout: 5000 }, 400) } as Session;
  expect(paused).toMatchObject({ pausedAt: 400, snapshottedAt: 400, expiresAt: undefined, timeout: 700 });
  expect(resumeOf(paused, 10_000, undefined, 1e9)).toMatchObject({
    timeout: 700,
    expiresAt: 10_700,
    resumedAt: 10_000,
  });
  expect(resumeOf(paused, 10_000, 50, 1e9)).toMatchObject({ timeout: 50, expiresAt: 10_050, snapshottedAt: undefined });
});

test("a session that was paused at its timeout gets its sandbox's timeout again", () => {
  expect(pauseOf(running, { timeout: 5000 }, 1100)).toMatchObject({ timeout: 5000 });
});

test("an idle session keeps its timeout, which begins again, and an unlimited one has none", () => {
  const idle = { ...running, lifetime: "idle" } as Session;
  const paused = { ...idle, ...pauseOf(idle, { timeout: 5000 }, 900) } as Session;
  expect(resumeOf(paused, 2000, 9, 1e9)).toMatchObject({ timeout: 1000, expiresAt: 3000, lastActivityAt: 2000 });
  const unlimited = { ...running, lifetime: "unlimited" } as Session;
  expect(resumeOf(unlimited, 2000, 9, 1e9)).toMatchObject({ expiresAt: undefined });
});

test("pauses do not count as time that a session ran", () => {
  const first = { ...running, ...pauseOf(running, undefined, 400) } as Session;
  expect(ranFor(first, 5000)).toBe(300);
  const again = { ...first, ...resumeOf(first, 1400, undefined, 1e9) } as Session;
  expect(ranFor(again, 1500)).toBe(400);
  const second = { ...again, ...pauseOf(again, undefined, 1500) } as Session;
  expect(ranFor({ ...second, ...resumeOf(second, 9000, undefined, 1e9) } as Session, 9100)).toBe(500);
});

/** a machine, a store with one session, and the pauses between them; `fails` is the step that fails */
function fixture(fails: { capture?: SandkeepError; store?: number; answers?: number } = {}) {
  let session: Session = running;
  let failures = fails.store ?? 0;
  let lostAnswers = fails.answers ?? 0;
  const adopted: string[] = [];
  const notices: string[] = [];
  const machine = {
    id: session.id,
    isPaused: false,
    resume: async () => {
      machine.isPaused = false;
    },
  };
  const store = {
    getSession: async () => session,
    getSandbox: async () => ({ timeout: 5000, currentSnapshotId: "snap_1" }),
    getSnapshot: async () => ({ sessionId: session.id, expiresAt: 10_000 }),
    openSessions: async () => [session],
    moveSession: async (_: string, from: SessionState[], to: SessionState, changes: object) => {
      const away = new SandkeepError("unavailable", "The database is away");
      // The first attempt was stored, and its answer was lost.
      if (session.state === to && lostAnswers-- > 0) throw away;
      if (!from.includes(session.state)) return undefined;
      if (failures-- > 0) throw away;
      session = { ...session, ...changes, state: to };
      if (lostAnswers-- > 0) throw away;
      return session;
    },
  };
  let at = 400;
  const events = new Events({ run: "run", now: () => at });
  const runtime = { machine: () => machine, end: () => undefined };
  const notice = (sentence: string) => void notices.push(sentence);
  const limits = { maxTimeout: 1e9 };
  const context = { store, runtime, events, limits, now: () => at, notice, logError: () => undefined };
  const captures = {
    take: async () => {
      if (fails.capture) throw fails.capture;
      machine.isPaused = true;
    },
  };
  const end = (state: SessionState) => async () => {
    session = { ...session, state };
    return { session };
  };
  const pauses = new Pauses({
    context: context as unknown as Context,
    transitions: new Transitions(context as unknown as Context),
    endings: { capture: end("stopped"), discard: end("stopping") } as unknown as Endings,
    captures: captures as unknown as Captures,
    adoptCommands: async ({ id }) => void adopted.push(id),
    expiryChanged: () => undefined,
  });
  const setTime = (time: number) => {
    at = time;
  };
  const refuse = (times: number) => {
    failures = times;
  };
  const loseAnswers = (times: number) => {
    lostAnswers = times;
  };
  onTestFinished(() => pauses.close());
  return { pauses, machine, adopted, notices, setTime, session: () => session, captures, refuse, loseAnswers };
}

test("a pause and a resume go through the machine and the store, one after the other", async () => {
  const { pauses, machine, session } = fixture();
  const paused = pauses.pause(running);
  const resumed = pauses.resume(running, 60);
  expect(await paused).toMatchObject({ state: "paused" });
  expect(await resumed).toMatchObject({ state: "running", timeout: 60 });
  expect([machine.isPaused, session().state]).toEqual([false, "running"]);
  expect(await pauses.resume(running)).toBeUndefined();
});

test("one lost answer of the store is repeated; a store that is away leaves the machine running", async () => {
  expect(await fixture({ store: 1 }).pauses.pause(running)).toMatchObject({ state: "paused" });
  const { pauses, machine, session } = fixture({ store: 2 });
  await expect(pauses.pause(running)).rejects.toMatchObject({ code: "unavailable" });
  expect([machine.isPaused, session().state]).toEqual([false, "running"]);
});

test("a machine is made to agree with a store that did something and gave no answer", async () => {
  const pausing = fixture({ answers: 2 });
  await expect(pausing.pauses.pause(running)).rejects.toMatchObject({ code: "unavailable" });
  expect([pausing.machine.isPaused, pausing.session().state]).toEqual([false, "paused"]);
  await eventually("it is frozen", () => pausing.machine.isPaused);
  const resuming = fixture();
  await resuming.pauses.pause(running);
  resuming.loseAnswers(2);
  await expect(resuming.pauses.resume(running)).rejects.toMatchObject({ code: "unavailable" });
  expect([resuming.machine.isPaused, resuming.session().state]).toEqual([false, "running"]);
  const refusing = fixture();
  await refusing.pauses.pause(running);
  refusing.refuse(2);
  await expect(refusing.pauses.resume(running)).rejects.toMatchObject({ code: "unavailable" });
  expect([refusing.machine.isPaused, refusing.session().state]).toEqual([false, "paused"]);
  await eventually("it is frozen again", () => refusing.machine.isPaused);
});

test("a host without a freezer keeps the files, says so, and the session is over", async () => {
  const { pauses, notices } = fixture({ capture: new SandkeepError("unsupported", "There is no freezer") });
  expect(await pauses.pause(running)).toMatchObject({ state: "stopped" });
  expect(notices).toEqual([expect.stringContaining("A pause keeps files only")]);
});

test("after a restart a paused session is frozen if it is not, and its commands are followed from its resume on", async () => {
  const { pauses, machine, adopted } = fixture();
  const paused = await pauses.pause(running);
  machine.isPaused = false;
  await pauses.found(paused, machine as never);
  expect([machine.isPaused, adopted]).toEqual([true, []]);
  await pauses.resume(paused);
  expect(adopted).toEqual([running.id]);
});

test("a session is not paused for longer than its snapshot is kept", async () => {
  const { pauses, session, setTime } = fixture();
  await pauses.expire();
  expect(session().state).toBe("running");
  await pauses.pause(running);
  setTime(9999);
  await pauses.expire();
  expect(session().state).toBe("paused");
  setTime(10_000);
  await pauses.expire();
  expect(session().state).toBe("stopping");
});
