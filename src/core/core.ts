/** Puts the services of the core together: what the wires call, and what goes on without anybody calling. */

import { Access, type AccessOptions } from "./access.ts";
import { Activity } from "./activity.ts";
import { Boots } from "./boots.ts";
import { eachBounded } from "./bounded.ts";
import { Captures } from "./captures.ts";
import { Clock } from "./clock.ts";
import { Commands } from "./commands.ts";
import type { Context } from "./context.ts";
import { Descriptions } from "./descriptions.ts";
import { Drives } from "./drives.ts";
import { EgressLogs } from "./egress-log.ts";
import { Endings } from "./endings.ts";
import { Expiry, stopsAtOnce } from "./expiry.ts";
import { SessionFiles } from "./files.ts";
import { Host } from "./host.ts";
import { type Guarded, guarded } from "./permissions.ts";
import { NetworkPolicies } from "./policies.ts";
import { Quarantine } from "./quarantine.ts";
import { recover } from "./recovery.ts";
import { Retention } from "./retention.ts";
import { Routes } from "./routes.ts";
import type { Machine } from "./runtime.ts";
import { Sandboxes } from "./sandboxes.ts";
import { Sessions } from "./sessions.ts";
import { SnapshotService } from "./snapshots.ts";

export interface Core extends Guarded {
  access: Access;
  policies: NetworkPolicies;
  host: Host;
  /** recovers what an earlier daemon left and begins to watch the time */
  open(options?: { keepAll?: boolean }): Promise<void>;
  /** stops watching; sessions go on */
  close(): Promise<void>;
  /** ends every session */
  stopAll(): Promise<void>;
}

export function createCore(given: Context, options: AccessOptions): Core {
  const clock = new Clock(given.now, given.steady ?? given.now);
  const context: Context = { ...given, now: () => clock.now(), settledNow: () => clock.settled() };
  const descriptions = new Descriptions(context);
  const quarantine = new Quarantine(context, descriptions);
  const retention = new Retention(context, descriptions, quarantine);
  const captures = new Captures(context, retention);
  const endings = new Endings(context, retention, captures);
  const activity = new Activity(context);
  const expiry = new Expiry({ context, endings, retention, activity, quarantine });
  const expiryChanged = () => expiry.changed();
  clock.move = async (by) => {
    context.notice(`The clock was set by ${Math.round(by / 1000)} s: sessions keep the time that they had left`);
    await context.store.moveSessions(by).catch(context.trouble);
    expiryChanged();
  };
  const watch = (machine: Machine) => {
    void machine.ended.then((end) => endings.machineEnded(end)).catch(context.trouble);
  };
  const boots = new Boots(context, descriptions, watch);
  const drives = new Drives(context, descriptions);
  const sandboxes = new Sandboxes({ context, boots, endings, captures, retention, drives, expiryChanged });
  const sessions = new Sessions({
    context,
    activity,
    endings,
    captures,
    booted: (id) => boots.settled(id),
    expiryChanged,
  });
  const commands = new Commands(context, sessions, activity);
  const services = guarded(
    {
      sandboxes,
      sessions,
      commands,
      files: new SessionFiles(sessions, context.ids),
      egress: new EgressLogs(context, sessions, (id) => boots.settled(id)),
      snapshots: new SnapshotService(context, retention),
      drives,
      routes: new Routes(context),
    },
    context,
  );
  return {
    ...services,
    access: new Access(context, options),
    policies: new NetworkPolicies(context, services.sandboxes, services.sessions),
    host: new Host(context),
    async open({ keepAll = false } = {}) {
      await recover({ context, activity, endings, commands, descriptions, watch });
      await quarantine.open({ keepAll });
      expiry.open();
      retention.collect();
    },
    async close() {
      await expiry.close();
      endings.close();
      activity.close();
      await commands.settled();
      await retention.settled();
    },
    async stopAll() {
      const open = await context.store.openSessions();
      const reason = "The daemon was stopped with all its sandboxes";
      await eachBounded(stopsAtOnce, open, (session) => endings.stop(session, "asked", reason));
    },
  };
}
