/**
 * Snapshots that are on record and whose files are gone, which only a loss of power or of the disk can bring about. Each
 * is said to have failed, and its sandbox goes on with the newest snapshot that is there. A sandbox that was never captured
 * begins anew.
 */

import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";

export async function settleLostSnapshots(context: Context): Promise<void> {
  const { store, runtime } = context;
  const there = new Set((await runtime.snapshots.list()).map(({ id }) => id));
  for (const runtimeId of await store.liveRuntimeSnapshots()) {
    if (there.has(runtimeId)) continue;
    for (const snapshot of await store.snapshotsOfRuntime(runtimeId)) {
      if (snapshot.state === "created") await settleLost(context, snapshot, there);
    }
  }
}

/** whether nothing of a sandbox that keeps its files could be kept: its only session was lost with the host */
export async function beginsAnew({ store, notice }: Context, sandbox: Sandbox, session: Session): Promise<boolean> {
  if (!sandbox.persistent || sandbox.currentSnapshotId !== undefined || session.endCause !== "host") return false;
  if ((await store.snapshotsOf(sandbox.id)).length > 0) return false;
  const why = "the host was restarted before its files were on the disk";
  notice(`Sandbox "${sandbox.name}" begins anew from its image: ${why}`);
  return true;
}

async function settleLost({ store, now, notice, events }: Context, lost: Snapshot, there: Set<string>): Promise<void> {
  const at = now();
  await store.updateSnapshot(lost.id, { state: "failed", updatedAt: at, expiresAt: undefined });
  const about = { sandbox: lost.sandboxName, snapshotId: lost.id, sessionId: lost.sessionId };
  events.publish(lost.projectId, { type: "snapshot.failed", ...about });
  const sandbox = await store.getSandbox(lost.sandboxId);
  const what = `The files of snapshot "${lost.id}" of sandbox "${lost.sandboxName}" are gone`;
  if (sandbox?.currentSnapshotId !== lost.id) return notice(what);
  const intact = (await store.snapshotsOf(sandbox.id)).find(
    ({ state, runtimeId }) => state === "created" && there.has(runtimeId),
  );
  if (!intact) return notice(`${what}, and there is none before it to resume from`);
  await store.updateSandbox(sandbox.id, { currentSnapshotId: intact.id, updatedAt: at });
  notice(`${what}: it resumes from "${intact.id}" of ${new Date(intact.createdAt).toISOString()}`);
}
