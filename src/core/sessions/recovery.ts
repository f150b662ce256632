/**
 * Reconciles the stored sessions with the machines when the daemon starts: it undoes half-finished boots, completes
 * pending ends, and records dead machines as lost. quarantine.ts handles machines without a record.
 */

import type { Commands } from "../commands/commands.ts";
import type { Context } from "../context.ts";
import { beginTrust } from "../images/trust.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import { networkOf } from "../network/networks.ts";
import type { Machine, MachineEnd } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { settleLostSnapshots } from "../snapshots/lost-snapshots.ts";
import type { Activity } from "./activity.ts";
import type { Endings } from "./end.ts";
import type { Pauses } from "./pauses.ts";
import type { Transitions } from "./transitions.ts";

/** most ids in one statement */
const batch = 500;

export interface RecoveryOptions {
  context: Context;
  transitions: Transitions;
  activity: Activity;
  endings: Endings;
  commands: Commands;
  pauses: Pauses;
  descriptions: Descriptions;
  /** starts to watch a live machine */
  watch: (machine: Machine) => void;
}

export async function recover(options: RecoveryOptions): Promise<void> {
  const { store, logError } = options.context;
  if (!(await store.claim())) {
    throw new SandkeepError("conflict", "Cannot serve: another daemon uses this database");
  }
  await store.abandonIdempotent();
  for (const id of await store.uncountedSessions()) await store.addTotals(id);
  const open = await store.openSessions();
  const recovered = open.map((session) => {
    const about = { sandbox: session.sandboxName, session: session.id };
    return recoverSession(options, session).catch((error) => logError(error, about));
  });
  await Promise.all(recovered);
  await keepFound(options);
  await endLeftovers(options.context, new Set(open.map(({ id }) => id)));
  await settleLostSnapshots(options.context).catch(logError);
}

async function recoverSession(options: RecoveryOptions, session: Session): Promise<void> {
  const { context, activity, endings, commands, pauses, descriptions, watch } = options;
  const machine = context.runtime.machine(session.id);
  // complete a pending delete: what it has deleted cannot be restored
  if (session.state !== "pending" && (await isDeleted(context, session))) {
    await endings.discard(session, "Its sandbox was deleted");
    await descriptions.forgetMachine(session.id);
    return;
  }
  switch (session.state) {
    case "pending":
      return undoBoot(options, session);
    case "running":
    case "paused":
      if (!machine) {
        await endings.lost(session, context.runtime.end(session.id) ?? vanished(context, session));
        return;
      }
      watch(machine);
      if (session.state === "paused") {
        await describe(context, descriptions, session);
        await restoreNetwork(context, session, machine);
        return pauses.found(session, machine);
      }
      // A daemon died during a snapshot, or before it stored a pause.
      await machine.resume();
      await describe(context, descriptions, session);
      await commands.adopt(session);
      await activity.use(session);
      await restoreNetwork(context, session, machine);
      // The host's certificates may have changed since the machine booted.
      beginTrust(machine, "allow-all", context);
      return;
    default:
      await endings.resume(session);
  }
}

/** keeps the files of machines whose damaged records hid them from an earlier start, which gave their sessions up */
async function keepFound({ context, endings }: RecoveryOptions): Promise<void> {
  const { store, runtime, notice, logError } = context;
  const unkept = runtime.ends().filter(({ cause, snapshot }) => cause !== "asked" && !snapshot);
  const ids = [...runtime.machines().map(({ id }) => id), ...unkept.map(({ machineId }) => machineId)];
  for (let at = 0; at < ids.length; at += batch) {
    for (const session of await store.getSessions(ids.slice(at, at + batch))) {
      if (!isGivenUp(session) || (await isDeleted(context, session))) continue;
      const kept = await endings.found(session).catch(logError);
      if (kept) notice(`The machine of session "${session.id}" was found again: its files are snapshot "${kept.id}"`);
    }
  }
}

/** whether it ended because its machine could not be found, without keeping its files */
function isGivenUp({ state, endCause, snapshottedAt }: Session): boolean {
  return state === "aborted" && endCause === "host" && snapshottedAt === undefined;
}

/** stops machines whose sessions are over: a daemon died after it acknowledged the end */
async function endLeftovers({ store, runtime, logError }: Context, open: Set<string>): Promise<void> {
  for (const machine of runtime.machines()) {
    if (open.has(machine.id) || !(await store.getSession(machine.id))) continue;
    await machine.stop().catch(logError);
    await runtime.forget(machine.id).catch(logError);
  }
}

/** adds a missing description, as older versions wrote none */
async function describe({ store }: Context, descriptions: Descriptions, session: Session): Promise<void> {
  if (descriptions.has("machine", session.id)) return;
  const sandbox = await store.getSandbox(session.sandboxId);
  if (sandbox) await descriptions.machine(sandbox, session);
}

/** applies the stored policy: only the store has its secrets, and the daemon may have died during a change */
async function restoreNetwork(context: Context, session: Session, machine: Machine): Promise<void> {
  const network = networkOf(context, session);
  if (network !== machine.spec.network) await machine.setNetwork(network);
}

async function isDeleted({ store }: Context, session: Session): Promise<boolean> {
  return (await store.findSandbox(session.projectId, session.sandboxName))?.id !== session.sandboxId;
}

/** no caller knows of this session; a sandbox without any other session is deleted with it */
async function undoBoot({ context, transitions }: RecoveryOptions, session: Session): Promise<void> {
  const { store, runtime, now, logError } = context;
  await runtime.machine(session.id)?.stop().catch(logError);
  await runtime.forget(session.id).catch(logError);
  await store.detachDrives(session.id, now());
  const at = now();
  // first, as in a failed create: if this daemon dies too, the next one finds the session pending again
  const sandbox = await store.getSandbox(session.sandboxId);
  if (sandbox && sandbox.createdAt === session.createdAt) await store.deleteSandbox(sandbox.id, at);
  await transitions.apply(session, "boot-failed", {
    updatedAt: at,
    stoppedAt: at,
    endCause: "crash",
    endReason: "The daemon died while it was being made",
  });
}

function vanished({ runtime }: Context, session: Session): MachineEnd {
  const isDamaged = runtime.damaged() > 0;
  return {
    machineId: session.id,
    cause: "host",
    reason: isDamaged ? "Its machine is gone, or is one whose record is damaged" : "Its machine is gone",
    endedAt: session.updatedAt,
    usage: {
      cpuTime: 0,
      memory: 0,
      peakMemory: 0,
      processes: 0,
      network: { received: 0, sent: 0 },
      outOfMemoryKills: 0,
    },
  };
}
