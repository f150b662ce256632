/** Composes the services of the core: those that the APIs call, and those that run in the background. */

import { eachBounded } from "../base/concurrency/each-bounded.ts";
import { FairSemaphore } from "../base/concurrency/fair-semaphore.ts";
import { Access, type AccessOptions } from "./access/access.ts";
import { type Guarded, guarded } from "./access/permissions.ts";
import { Quotas } from "./access/quotas.ts";
import { Teams } from "./access/teams.ts";
import { Audit } from "./audit/audit.ts";
import { Builds } from "./builds/builds.ts";
import { Clock } from "./clock.ts";
import { Commands } from "./commands/commands.ts";
import type { Context } from "./context.ts";
import { Drives } from "./drives/drives.ts";
import { Events } from "./events/events.ts";
import { ProjectEvents } from "./events/project-events.ts";
import { SessionFiles } from "./files/files.ts";
import { UserFiles } from "./files/user-files.ts";
import { Host } from "./host.ts";
import { ImageAliases } from "./images/aliases.ts";
import { Pulls } from "./images/pulls.ts";
import type { Session } from "./model/sandbox.ts";
import { EgressLogs } from "./network/egress-log.ts";
import { NetworkPolicies } from "./network/policies.ts";
import { Routes } from "./network/routes.ts";
import type { Machine } from "./ports/runtime.ts";
import { Descriptions } from "./recovery/descriptions.ts";
import { Quarantine } from "./recovery/quarantine.ts";
import { Activities } from "./sandboxes/activities.ts";
import { Sandboxes } from "./sandboxes/sandboxes.ts";
import { Tapes } from "./sandboxes/tape.ts";
import { Secrets } from "./secrets/secrets.ts";
import { Activity } from "./sessions/activity.ts";
import { Boots } from "./sessions/boot.ts";
import { Endings } from "./sessions/end.ts";
import { Expiry, stopsAtOnce } from "./sessions/expiry.ts";
import { Pauses } from "./sessions/pauses.ts";
import { Pruning } from "./sessions/pruning.ts";
import { recover } from "./sessions/recovery.ts";
import { Samples } from "./sessions/samples.ts";
import { Sessions } from "./sessions/sessions.ts";
import { Transitions } from "./sessions/transitions.ts";
import { Captures } from "./snapshots/captures.ts";
import { settleLostSnapshots } from "./snapshots/lost-snapshots.ts";
import { Retention } from "./snapshots/retention.ts";
import { SnapshotService } from "./snapshots/snapshots.ts";
import { Templates } from "./templates/templates.ts";
import { Webhooks } from "./webhooks/webhooks.ts";

/** how long one caller's stop may hold up others, in ms */
const longestTurn = 5000;

export interface Core extends Guarded {
  access: Access;
  quotas: Quotas;
  teams: Teams;
  audit: Audit;
  activities: Activities;
  tapes: Tapes;
  policies: NetworkPolicies;
  host: Host;
  /** recovers what an earlier daemon left, and starts the timers */
  open(options?: { keepAll?: boolean }): Promise<void>;
  /** stops the timers; sessions go on */
  close(): Promise<void>;
  /** ends every session */
  stopAll(): Promise<void>;
}

export function createCore(given: Omit<Context, "events">, options: AccessOptions): Core {
  const clock = new Clock(given.now, given.steady ?? given.now);
  const now = () => clock.now();
  const { eventFiles, bootId: boot, logError } = given;
  const events = new Events({ run: given.ids.run(), now, files: eventFiles, boot, logError });
  const context: Context = { ...given, events, now, settledNow: () => clock.settled() };
  const transitions = new Transitions(context);
  const descriptions = new Descriptions(context);
  const quarantine = new Quarantine(context, descriptions);
  const retention = new Retention(context, descriptions, quarantine);
  const captures = new Captures(context, retention);
  const endings = new Endings(context, transitions, retention, captures);
  const activity = new Activity(context);
  const pruning = new Pruning(context, descriptions);
  const adoptCommands = (session: Session) => commands.adopt(session);
  const expiryChanged = () => expiry.changed();
  const pauses = new Pauses({ context, transitions, endings, captures, adoptCommands, expiryChanged });
  const expiry = new Expiry({ context, endings, retention, activity, pauses, quarantine, pruning });
  clock.move = async (by) => {
    context.notice(`The clock was set by ${Math.round(by / 1000)} s: sessions keep the time that they had left`);
    await context.store.moveSessions(by).catch(context.logError);
    expiryChanged();
  };
  const watch = (machine: Machine) => {
    const logError = (error: unknown) => context.logError(error, { session: machine.id });
    void machine.ended.then((end) => endings.machineEnded(end)).catch(logError);
  };
  const boots = new Boots(context, transitions, descriptions, watch);
  const drives = new Drives(context, descriptions, (id, boot) => boots.bootOther(id, boot));
  const quotas = new Quotas(context);
  const turns = new FairSemaphore({ ofAll: stopsAtOnce, patience: longestTurn });
  const sandboxes = new Sandboxes({
    context,
    transitions,
    boots,
    endings,
    captures,
    pauses,
    retention,
    drives,
    quotas,
    turns,
    expiryChanged,
  });
  const samples = new Samples(context);
  const sessions = new Sessions({
    context,
    quotas,
    samples,
    activity,
    endings,
    captures,
    pauses,
    retention,
    turns,
    booted: (id) => boots.settled(id),
    expiryChanged,
  });
  const commands = new Commands(context, sessions, activity);
  const builds = new Builds(context, quotas);
  const pulls = new Pulls(context, quotas);
  const templates = new Templates(context, builds);
  const snapshots = new SnapshotService(context, retention);
  const secrets = new Secrets(context);
  const webhooks = new Webhooks(context);
  const audit = new Audit(context);
  const permitted = guarded(
    {
      sandboxes,
      sessions,
      commands,
      files: new SessionFiles(context, sessions),
      userFiles: new UserFiles(context, sessions),
      egress: new EgressLogs(context, sessions, (id) => boots.settled(id)),
      snapshots,
      drives,
      builds,
      pulls,
      imageAliases: new ImageAliases(context),
      templates,
      secrets,
      routes: new Routes(context, async ({ teamId, projectId, name }) => {
        return (await sandboxes.resume({ teamId, projectId }, name)).session.id;
      }),
      events: new ProjectEvents(events),
      webhooks,
    },
    context,
  );
  const access = new Access(context, options);
  const teams = new Teams(context, {
    access,
    quotas,
    sandboxes,
    snapshots,
    drives,
    builds,
    templates,
    secrets,
    webhooks,
  });
  const services = audit.over({ ...permitted, access, quotas, teams, host: new Host(context) });
  return {
    ...services,
    audit,
    activities: new Activities(services),
    tapes: new Tapes(services, now),
    policies: new NetworkPolicies(context, services.sandboxes, services.sessions),
    async open({ keepAll = false } = {}) {
      await recover({ context, transitions, activity, endings, commands, pauses, descriptions, watch });
      await templates.open();
      context.runtime.onLoss(() => void settleLostSnapshots(context).catch(context.logError));
      await quarantine.open({ keepAll });
      await teams.open().catch(context.logError);
      expiry.open();
      await webhooks.open();
      audit.open();
      samples.open();
      retention.collect();
      void builds.prune().catch(context.logError);
    },
    async close() {
      await webhooks.close();
      await samples.close();
      await builds.close();
      await pulls.close();
      await templates.close();
      await expiry.close();
      await pruning.close();
      endings.close();
      pauses.close();
      activity.close();
      await commands.settled();
      await retention.settled();
      await audit.close().catch(context.logError);
      await events.close();
    },
    async stopAll() {
      const open = await context.store.openSessions();
      const reason = "The daemon was stopped with all its sandboxes";
      await eachBounded(stopsAtOnce, open, (session) => endings.stop(session, "asked", reason));
    },
  };
}
