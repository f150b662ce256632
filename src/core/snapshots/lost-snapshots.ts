/**
 * Stored snapshots whose files are gone or incomplete, which only a loss of power or of the disk can cause. Each is
 * marked as failed, and its sandbox resumes from the newest intact snapshot. An incomplete one without an older one stays. A sandbox that was never captured, or never ran, starts
 * again from its image.
 */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";

/** most sessions read in one step */
const batch = 20;

export async function settleLostSnapshots(context: Context): Promise<void> {
  const { store, runtime } = context;
  const suspects = await runtime.snapshots.suspects();
  const there = new Set((await runtime.snapshots.list()).map(({ id }) => id));
  const missing = (await store.liveRuntimeSnapshots()).filter((runtimeId) => !there.has(runtimeId));
  for (const restored of await runtime.snapshots.restore(missing)) there.add(restored);
  for (const runtimeId of missing) {
    if (there.has(runtimeId)) continue;
    for (const snapshot of await store.snapshotsOfRuntime(runtimeId)) {
      if (snapshot.state === "created") await settleLost(context, snapshot, there);
    }
  }
  const intact = new Set([...there].filter((runtimeId) => !suspects.includes(runtimeId)));
  for (const runtimeId of suspects) {
    for (const snapshot of await store.snapshotsOfRuntime(runtimeId)) {
      if (snapshot.state === "created") await settleSuspect(context, snapshot, intact);
    }
    await runtime.snapshots.trust(runtimeId);
  }
}

/**
 * whether a sandbox without any snapshot starts again from its image: it has never run, for example because its create
 * was cut off, or its files were lost with the host. Failed starts in between do not change that
 */
export async function startsWithoutSnapshot(context: Context, sandbox: Sandbox): Promise<boolean> {
  const { store, runtime, notice } = context;
  if (sandbox.currentSnapshotId !== undefined || (await store.snapshotsOf(sandbox.id)).length > 0) return false;
  const last = await lastStarted(context, sandbox);
  if (last && !(sandbox.persistent && last.endCause === "host")) return false;
  if (last && runtime.damaged() > 0) {
    const why = "its files may be those of a machine whose record is damaged";
    throw new SandkeepError("conflict", `Cannot resume sandbox: ${why}. "sandkeep recover" lists such records.`);
  }
  const why = last ? "its files were lost before they were on the disk" : "it has never run";
  notice(`Sandbox "${sandbox.name}" starts again from its image: ${why}`);
  return true;
}

/** the newest session that ran */
async function lastStarted({ store }: Context, sandbox: Sandbox): Promise<Session | undefined> {
  const { projectId, name, createdAt } = sandbox;
  let cursor: string | undefined;
  do {
    const page = await store.listSessions({
      projectId,
      sandboxName: name,
      after: { at: createdAt - 1 },
      order: "desc",
      limit: batch,
      ...(cursor !== undefined && { cursor }),
    });
    const started = page.items.find(({ startedAt }) => startedAt !== undefined);
    if (started) return started;
    cursor = page.next;
  } while (cursor !== undefined);
  return undefined;
}

async function settleSuspect(context: Context, suspect: Snapshot, intact: Set<string>): Promise<void> {
  const { store, notice } = context;
  const others = await store.snapshotsOf(suspect.sandboxId);
  if (others.some(({ state, runtimeId }) => state === "created" && intact.has(runtimeId)))
    return settleLost(context, suspect, intact, "are incomplete");
  const what = `Snapshot "${suspect.id}" of sandbox "${suspect.sandboxName}" may lack its last files`;
  notice(`${what}, as they could not be written to the disk, and there is none before it to resume from`);
}

async function settleLost(
  { store, now, notice, events }: Context,
  lost: Snapshot,
  there: Set<string>,
  how = "are gone",
): Promise<void> {
  const at = now();
  await store.updateSnapshot(lost.id, { state: "failed", updatedAt: at, expiresAt: undefined });
  const about = { sandbox: lost.sandboxName, snapshotId: lost.id, sessionId: lost.sessionId };
  events.publish(lost.projectId, { type: "snapshot.failed", ...about });
  const sandbox = await store.getSandbox(lost.sandboxId);
  const what = `The files of snapshot "${lost.id}" of sandbox "${lost.sandboxName}" ${how}`;
  if (sandbox?.currentSnapshotId !== lost.id) return notice(what);
  const intact = (await store.snapshotsOf(sandbox.id)).find(
    ({ state, runtimeId }) => state === "created" && there.has(runtimeId),
  );
  if (!intact) return notice(`${what}, and there is no earlier one to resume from`);
  await store.updateSandbox(sandbox.id, { currentSnapshotId: intact.id, updatedAt: at });
  notice(`${what}: it resumes from "${intact.id}" of ${new Date(intact.createdAt).toISOString()}`);
}
