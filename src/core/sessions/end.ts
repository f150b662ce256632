/**
 * How sessions end: on request, at their timeout, by a capture, or because their machine was lost. Each session ends
 * once: a call while it is ending waits for the same end.
 */

import { Retries } from "../../base/concurrency/retries.ts";
import { SingleFlight } from "../../base/concurrency/single-flight.ts";
import { after } from "../../base/concurrency/waits.ts";
import type { Context } from "../context.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { EndCause, Session, Snapshot } from "../model/sandbox.ts";
import type { Machine, MachineEnd } from "../ports/runtime.ts";
import type { Captures } from "../snapshots/captures.ts";
import type { Retention } from "../snapshots/retention.ts";
import { ranFor } from "./lifetime.ts";
import { isOver } from "./states.ts";
import type { Transitions } from "./transitions.ts";

export interface Ended {
  session: Session;
  snapshot?: Snapshot;
}

/** why a session ends, and whether it is captured */
interface Ending {
  cause: EndCause;
  reason: string;
  /** set if the file system is kept */
  capture?: { method: Snapshot["method"]; expiration?: number | undefined };
}

/** only a failed disk loses files that should be kept; the sandbox may then start again */
const filesGone = { cause: "host", reason: "Its machine is gone with its files" } as const;
const killed = 128 + 9;
/** how long a machine that does not answer may take to end, in ms */
const longestDeath = 10_000;
/** how long callers wait for the end of a session, in ms */
const longestEnding = 60_000;

export class Endings {
  readonly #context: Context;
  readonly #transitions: Transitions;
  readonly #retention: Retention;
  readonly #captures: Captures;
  readonly #flights = new SingleFlight<Ended>();
  readonly #retries: Retries;

  constructor(context: Context, transitions: Transitions, retention: Retention, captures: Captures) {
    this.#context = context;
    this.#transitions = transitions;
    this.#retention = retention;
    this.#captures = captures;
    this.#retries = new Retries(context.logError);
  }

  /** the session has ended when this resolves; an ended session stays as it is */
  stop(session: Session, cause: EndCause, reason: string): Promise<Ended> {
    return this.#once(session.id, async () => {
      const changes = { requestedStopAt: this.#context.now() };
      const stopping = await this.#transitions.apply(session, "stop", changes);
      if (!stopping) return this.#asItIs(session.id);
      const keep = await this.#isKept(stopping);
      return this.#end(stopping, { cause, reason, ...(keep && { capture: { method: "automatic" } }) });
    });
  }

  /** without a snapshot, because its sandbox is being deleted */
  discard(session: Session, reason: string): Promise<Ended> {
    return this.#once(session.id, async () => {
      const changes = { requestedStopAt: this.#context.now() };
      const stopping = await this.#transitions.apply(session, "discard", changes);
      if (!stopping) return this.#asItIs(session.id);
      return this.#end(stopping, { cause: "asked", reason });
    });
  }

  /** captures the session and ends it */
  async capture(session: Session, expiration: number | undefined): Promise<Required<Ended>> {
    const flight = this.#flights.get(session.id);
    if (flight) {
      await flight;
      throw notRunning(await this.#current(session.id));
    }
    const { session: ended, snapshot } = await this.#once(session.id, async () => {
      const changes = { snapshottedAt: this.#context.now() };
      const moved = await this.#transitions.apply(session, "capture", changes);
      if (!moved) throw notRunning(await this.#current(session.id));
      return this.#end(moved, {
        cause: "asked",
        reason: "A snapshot of it was taken",
        capture: { method: "manual", expiration },
      });
    });
    if (!snapshot) throw new SandkeepError("internal", `Cannot capture session "${session.id}": nothing was captured`);
    return { session: ended, snapshot };
  }

  /** its machine ended without a request; a persistent sandbox keeps its files up to then */
  lost(session: Session, end: MachineEnd): Promise<Ended> {
    return this.#once(session.id, async () => {
      const current = await this.#current(session.id);
      if (isOver(current.state)) return { session: current };
      await this.#captures.settled(session.id);
      const isKept = await this.#isKept(current);
      const kept = isKept ? await this.#context.runtime.salvage(session.id) : undefined;
      const snapshot = kept && (await this.#retention.record(current, kept, { method: "automatic" }));
      const isPaused = current.state === "paused";
      const isGone = isKept && !kept && !isPaused && end.cause !== "host";
      const why = isGone
        ? filesGone
        : { cause: end.cause, reason: isPaused ? this.#lostMemory(current, end) : end.reason };
      return this.#finish(current, "lost", end, why, snapshot);
    });
  }

  /**
   * keeps the files of a machine, or of its remains, that was found after its session was given up. The sandbox resumes
   * from them unless it has run since. undefined if there is nothing to keep
   */
  async found(session: Session): Promise<Snapshot | undefined> {
    const { runtime, store, now } = this.#context;
    const sandbox = await store.getSandbox(session.sandboxId);
    if (!sandbox || !(await this.#isKept(session))) return undefined;
    const end = await runtime.machine(session.id)?.stop({ snapshot: true });
    const kept = end?.snapshot ?? (await runtime.salvage(session.id));
    if (!kept) return undefined;
    const isAside = sandbox.currentSessionId !== session.id;
    const snapshot = await this.#retention.record(session, kept, { method: "automatic", isAside });
    await store.updateSession(session.id, [session.state], { snapshottedAt: now() });
    return snapshot;
  }

  /** records the end of a machine; if a caller requested the end, that call records it */
  async machineEnded(end: MachineEnd): Promise<void> {
    if (end.cause === "asked") return;
    const session = await this.#context.store.getSession(end.machineId);
    if (session) await this.lost(session, end);
  }

  /** checks a report that a machine is gone; if it is, its end is stored when this resolves */
  async confirm(machine: Machine): Promise<void> {
    if (await answers(machine)) return;
    const end = await Promise.race([machine.ended, after(longestDeath)]);
    if (end) await this.machineEnded(end);
  }

  /** continues an end that a daemon began before it died */
  resume(session: Session): Promise<Ended> {
    const method = session.state === "snapshotting" ? "manual" : "automatic";
    return this.#once(session.id, async () => {
      const keep = session.state === "snapshotting" || (await this.#isKept(session));
      return this.#end(session, {
        cause: "asked",
        reason: "It was asked to stop",
        ...(keep && { capture: { method } }),
      });
    });
  }

  /** resolves when a pending end is over, and finishes one that failed; throws if that takes too long */
  async settled(sessionId: string): Promise<void> {
    const flight = this.#flights.get(sessionId);
    if (!flight) return this.finish(sessionId);
    const isOver = flight.then(
      () => true,
      () => true,
    );
    if (await Promise.race([isOver, after(longestEnding)])) return;
    throw new SandkeepError("unavailable", "Cannot wait for the end of the session any longer: it is still stopping");
  }

  #once(id: string, end: () => Promise<Ended>): Promise<Ended> {
    const there = this.#flights.get(id);
    if (there) return there;
    const flight = this.#flights.start(id, end);
    // The caller gets the error; the retry ensures that the session does not stay half ended.
    flight.catch(() => this.#retries.again(id, () => this.finish(id)));
    return flight;
  }

  /** ends a session whose end began but failed, for example on a full disk; throws if it fails again */
  async finish(id: string): Promise<void> {
    const session = await this.#context.store.getSession(id);
    if (!session || isOver(session.state) || this.#flights.has(id)) return;
    const { runtime } = this.#context;
    if (session.state === "stopping" || session.state === "snapshotting") await this.resume(session);
    const isUp = session.state === "running" || session.state === "paused";
    const end = isUp && !runtime.machine(id) ? runtime.end(id) : undefined;
    if (end) await this.lost(session, end);
  }

  close(): void {
    this.#retries.close();
  }

  /** says what a paused session has lost, and returns it as the reason of its end */
  #lostMemory({ sandboxName }: Session, { reason }: MachineEnd): string {
    const what = "its memory is gone, and it resumes from its files";
    this.#context.notice(`Sandbox "${sandboxName}" ended while it was paused: ${reason}; ${what}`);
    return `${reason} while it was paused: ${what}`;
  }

  /** whether to keep its files: if it is paused, or the session or its sandbox is persistent */
  async #isKept(session: Session): Promise<boolean> {
    if (session.persistent || session.pausedAt !== undefined) return true;
    const sandbox = await this.#context.store.getSandbox(session.sandboxId);
    return sandbox?.persistent ?? false;
  }

  async #end(session: Session, ending: Ending): Promise<Ended> {
    const { runtime } = this.#context;
    await this.#captures.settled(session.id);
    const machine = runtime.machine(session.id);
    const end = machine ? await machine.stop({ snapshot: ending.capture !== undefined }) : runtime.end(session.id);
    const kept = end?.snapshot ?? (ending.capture && (await runtime.salvage(session.id)));
    const snapshot = kept && ending.capture && (await this.#retention.record(session, kept, ending.capture));
    if (ending.capture && !kept) return this.#finish(session, "lost", end, filesGone, undefined);
    // The disk or the host failed first, so some of its last files may be missing.
    if (ending.capture && end?.cause === "host") return this.#finish(session, "lost", end, end, snapshot);
    return this.#finish(session, "ended", end, ending, snapshot);
  }

  /** writes the state last, so that a reader who sees it sees everything else */
  async #finish(
    session: Session,
    event: "ended" | "lost",
    end: MachineEnd | undefined,
    why: { cause: EndCause; reason: string },
    snapshot: Snapshot | undefined,
  ): Promise<Ended> {
    const { store, now } = this.#context;
    await this.#endCommands(session);
    await store.detachDrives(session.id, now());
    const at = now();
    // A machine that is lost during its boot has never run.
    const happened = event === "lost" && session.state === "pending" ? "boot-failed" : event;
    const final = await this.#transitions.apply(session, happened, {
      ...(happened === "lost" ? { abortedAt: at, stoppedAt: at } : { stoppedAt: at }),
      // A paused session was captured before.
      snapshottedAt: snapshot || session.pausedAt !== undefined ? (session.snapshottedAt ?? at) : undefined,
      expiresAt: undefined,
      duration: ranFor(session, at),
      cpuMs: Math.round(end?.usage.cpuTime ?? 0),
      ingressBytes: end?.usage.network.received ?? 0,
      egressBytes: end?.usage.network.sent ?? 0,
      endCause: why.cause,
      endReason: why.reason,
    });
    return { session: final ?? (await this.#current(session.id)), ...(snapshot && { snapshot }) };
  }

  /** ends open commands: with the exit in their journal, or else as killed with the machine */
  async #endCommands(session: Session): Promise<void> {
    const { store, runtime, now, events } = this.#context;
    for (const command of await store.openCommands(session.id)) {
      const exit = runtime.command(session.id, command.id)?.exit;
      const end = exit
        ? { exitCode: exit.code, endedAt: exit.exitedAt }
        : { exitCode: killed, endedAt: now(), endCause: "session-ended" as const };
      await store.endCommand(command.id, end);
      const about = { sessionId: session.id, commandId: command.id, exitCode: end.exitCode };
      events.publish(session.projectId, { type: "command.ended", ...about });
    }
  }

  async #asItIs(id: string): Promise<Ended> {
    const session = await this.#current(id);
    const snapshot = await this.#retention.latestOf(session);
    return { session, ...(snapshot && { snapshot }) };
  }

  async #current(id: string): Promise<Session> {
    const session = await this.#context.store.getSession(id);
    if (!session) throw new SandkeepError("not-found", `There is no session "${id}"`);
    return session;
  }
}

async function answers(machine: Machine): Promise<boolean> {
  try {
    await machine.files().stat("/");
    return true;
  } catch (error) {
    return !isSandkeepError(error, "gone");
  }
}

/** why a session cannot be used now */
export function notRunning(session: Session): SandkeepError {
  const what = `Cannot use session "${session.id}"`;
  switch (session.state) {
    case "stopping":
      return unusable("stopping", `${what}: it is stopping`);
    case "snapshotting":
      return unusable("snapshotting", `${what}: it is being captured, and stops then`);
    case "paused":
      return unusable("paused", `${what}: it is paused, and goes on when its sandbox is resumed`);
    default:
      return new SandkeepError("gone", `${what}: it has stopped`, { about: { kind: "session" } });
  }
}

function unusable(state: "stopping" | "snapshotting" | "paused", message: string): SandkeepError {
  return new SandkeepError("conflict", message, { about: { kind: "session", state } });
}
