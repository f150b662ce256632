/** Puts the services of the core together: what the wires call, and what goes on without anybody calling. */

import { Access, type AccessOptions } from "./access.ts";
import { Boots } from "./boots.ts";
import { Commands } from "./commands.ts";
import type { Context } from "./context.ts";
import { Drives } from "./drives.ts";
import { Endings } from "./endings.ts";
import { Expiry } from "./expiry.ts";
import { SessionFiles } from "./files.ts";
import { recover } from "./recovery.ts";
import { Retention } from "./retention.ts";
import { Routes } from "./routes.ts";
import type { Machine } from "./runtime.ts";
import { Sandboxes } from "./sandboxes.ts";
import { Sessions } from "./sessions.ts";
import { SnapshotService } from "./snapshots.ts";

export interface Core {
  access: Access;
  sandboxes: Sandboxes;
  sessions: Sessions;
  commands: Commands;
  files: SessionFiles;
  snapshots: SnapshotService;
  drives: Drives;
  routes: Routes;
  /** recovers what an earlier daemon left and begins to watch the time */
  open(): Promise<void>;
  /** stops watching; sessions go on */
  close(): Promise<void>;
  /** ends every session */
  stopAll(): Promise<void>;
}

export function createCore(context: Context, options: AccessOptions): Core {
  const retention = new Retention(context);
  const endings = new Endings(context, retention);
  const expiry = new Expiry(context, endings, retention);
  const expiryChanged = () => expiry.changed();
  const watch = (machine: Machine) => {
    void machine.ended.then((end) => ended(context, endings, machine, end)).catch(context.trouble);
  };
  const boots = new Boots(context, watch);
  const drives = new Drives(context);
  const sandboxes = new Sandboxes({ context, boots, endings, retention, drives, expiryChanged });
  const sessions = new Sessions({ context, endings, booted: (id) => boots.settled(id), expiryChanged });
  const commands = new Commands(context, sessions);
  return {
    access: new Access(context, options),
    sandboxes,
    sessions,
    commands,
    files: new SessionFiles(sessions),
    snapshots: new SnapshotService(context, retention),
    drives,
    routes: new Routes(context),
    async open() {
      await recover({ context, endings, commands, watch });
      expiry.open();
      retention.collect();
    },
    async close() {
      await expiry.close();
      await retention.settled();
    },
    async stopAll() {
      const open = await context.store.openSessions();
      await Promise.all(
        open.map((session) => endings.stop(session, "asked", "The daemon was stopped with all its sandboxes")),
      );
    },
  };
}

/** a machine that ended because it was asked to is being taken care of by whoever asked */
async function ended(
  context: Context,
  endings: Endings,
  machine: Machine,
  end: Awaited<Machine["ended"]>,
): Promise<void> {
  if (end.cause === "asked") return;
  const session = await context.store.getSession(machine.id);
  if (session) await endings.lost(session, end);
}
