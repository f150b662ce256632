/**
 * Enforces the limits of keys (scope.ts) before a service of the core does anything. Each method that takes a caller
 * needs an entry here, or this file does not compile: whether the method reads or changes, and what it is about.
 *
 * A caller without limits passes at once. Services call each other directly, without these checks.
 */

import type { BuildSpec, Builds } from "../builds/builds.ts";
import type { Commands } from "../commands/commands.ts";
import type { Context } from "../context.ts";
import type { Drives } from "../drives/drives.ts";
import type { ProjectEvents } from "../events/project-events.ts";
import type { SessionFiles } from "../files/files.ts";
import type { UserFiles } from "../files/user-files.ts";
import type { ImageAliases } from "../images/aliases.ts";
import type { Pulls } from "../images/pulls.ts";
import type { Caller, Owner } from "../model/sandbox.ts";
import {
  policyFor,
  requireAnyPolicy,
  requireChange,
  requirePolicy,
  requireProject,
  requireUsable,
  requireWholeTeam,
} from "../model/scope.ts";
import type { EgressLogs } from "../network/egress-log.ts";
import { allowAll, type NetworkPolicy, openPolicy } from "../network/network-policy.ts";
import type { Routes } from "../network/routes.ts";
import type { CreateSpec, ForkSpec, Sandboxes, UpdateSpec } from "../sandboxes/sandboxes.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { DiffTarget } from "../snapshots/diffs.ts";
import type { SnapshotService } from "../snapshots/snapshots.ts";
import type { Recipe } from "../templates/template-runs.ts";
import type { Templates } from "../templates/templates.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import { wrappedService } from "../wrapped-service.ts";

/** Throws if the call is not permitted; may return other arguments to use instead. */
type Check = (caller: never, ...args: never[]) => unknown;

/** an entry for every method whose first argument is a caller */
type Checks<T> = {
  [K in keyof T as T[K] extends (caller: never, ...args: never[]) => unknown
    ? Parameters<T[K]> extends [infer First, ...unknown[]]
      ? Owner extends First
        ? K
        : never
      : never
    : never]: Check;
};

export interface Guarded {
  sandboxes: Sandboxes;
  sessions: Sessions;
  commands: Commands;
  files: SessionFiles;
  userFiles: UserFiles;
  egress: EgressLogs;
  snapshots: SnapshotService;
  drives: Drives;
  builds: Builds;
  pulls: Pulls;
  imageAliases: ImageAliases;
  templates: Templates;
  secrets: Secrets;
  routes: Routes;
  events: ProjectEvents;
  webhooks: Webhooks;
}

export function guarded(
  services: Guarded,
  { store, seal, about = () => undefined }: Pick<Context, "store" | "seal" | "about">,
): Guarded {
  const sessionIn = async (caller: Caller, id: string) => {
    const session = await store.getSession(id);
    // The service itself refuses sessions of other teams.
    if (session?.teamId !== caller.teamId) return undefined;
    requireProject(caller, session.projectId);
    return session;
  };
  const aboutSession = async (caller: Caller, id: string) => void (await sessionIn(caller, id));
  /** uses the session's machine, and so reaches what the machine can reach */
  const usesSession = async (caller: Caller, id: string) => {
    const session = await sessionIn(caller, id);
    if (session) requireUsable(caller, session.sandboxName, session.networkPolicy);
  };
  const changesSession = async (caller: Caller, id: string) => {
    requireChange(caller);
    await aboutSession(caller, id);
  };
  const worksInSession = async (caller: Caller, id: string) => {
    requireChange(caller);
    await usesSession(caller, id);
  };
  const changes = (caller: Caller) => requireChange(caller);
  const reads = () => undefined;
  const aboutSnapshot = async (caller: Caller, id: string) => {
    const snapshot = await store.getSnapshot(id);
    if (snapshot?.teamId === caller.teamId) requireProject(caller, snapshot.projectId);
  };
  const changesSnapshot = async (caller: Caller, id: string) => {
    requireChange(caller);
    await aboutSnapshot(caller, id);
  };
  const aboutCommand = async (caller: Caller, id: string) => {
    const command = await store.getCommand(id);
    if (command?.teamId === caller.teamId) await sessionIn(caller, command.sessionId);
  };
  const sandboxIn = (owner: Owner, name: string) => store.findSandbox(owner.projectId, name);
  /** decrypted, so that rules can be compared */
  const opened = (policy: NetworkPolicy | undefined) => policy && openPolicy(policy, seal.open);

  const sandboxes: Checks<Sandboxes> = {
    async create(owner: Owner, spec: CreateSpec) {
      requireChange(owner);
      const networkPolicy = policyFor(owner, spec.networkPolicy);
      const origin = spec.source?.kind === "snapshot" ? await policyOfSnapshot(spec.source.snapshotId) : undefined;
      if (origin && networkPolicy === undefined && owner.scope?.narrowsOnly) {
        return [owner, { ...spec, networkPolicy: origin }];
      }
      // "Allow all" excludes private networks: compared with it, a new sandbox cannot open them either.
      requirePolicy(owner, networkPolicy ?? allowAll, origin ?? allowAll);
      return [owner, { ...spec, networkPolicy }];
    },
    get: reads,
    byId: reads,
    list: reads,
    listWithSessions: reads,
    count: reads,
    async resume(owner: Owner, name: string) {
      requireChange(owner);
      const sandbox = await sandboxIn(owner, name);
      if (sandbox) requireUsable(owner, name, sandbox.networkPolicy);
    },
    async update(owner: Owner, name: string, { networkPolicy }: UpdateSpec) {
      requireChange(owner);
      if (networkPolicy) requirePolicy(owner, networkPolicy, opened((await sandboxIn(owner, name))?.networkPolicy));
    },
    delete: changes,
    fork: forks,
    branch: forks,
    abandon: changes,
  };
  const sessions: Checks<Sessions> = {
    get: aboutSession,
    list: reads,
    ofSandbox: reads,
    timeline: reads,
    summaries: reads,
    listWithSandboxes: reads,
    successor: aboutSession,
    settled: aboutSession,
    sandboxOf: aboutSession,
    running: usesSession,
    use: worksInSession,
    heartbeat: changesSession,
    stop: changesSession,
    pause: changesSession,
    extend: changesSession,
    setTimeout: changesSession,
    endIn: changesSession,
    async setNetworkPolicy(caller: Caller, id: string, policy: NetworkPolicy) {
      requireChange(caller);
      requirePolicy(caller, policy, opened((await sessionIn(caller, id))?.networkPolicy));
    },
    snapshot: changesSession,
    checkpoint: changesSession,
    checkpointOrCopy: changesSession,
    environment: worksInSession,
    usage: aboutSession,
    load: aboutSession,
    samples: aboutSession,
    concurrency: reads,
  };
  const commands: Checks<Commands> = {
    run: worksInSession,
    get: aboutSession,
    find: aboutCommand,
    recent: reads,
    exit: aboutCommand,
    list: aboutSession,
    page: aboutSession,
    tally: aboutSession,
    wait: aboutSession,
    output: aboutSession,
    running: aboutSession,
    process: aboutSession,
    kill: changesSession,
    cancel: changesSession,
    write: worksInSession,
    append: worksInSession,
    feed: worksInSession,
    closeStdin: worksInSession,
    resize: worksInSession,
  };
  const files: Checks<SessionFiles> = {
    read: usesSession,
    readPart: usesSession,
    list: usesSession,
    search: usesSession,
    write: worksInSession,
    mkdir: worksInSession,
    extract: worksInSession,
    open: worksInSession,
  };
  const userFiles: Checks<UserFiles> = {
    account: usesSession,
    absolute: usesSession,
    stat: usesSession,
    list: usesSession,
    read: usesSession,
    watch: usesSession,
    makeDirectory: worksInSession,
    move: worksInSession,
    remove: worksInSession,
    write: worksInSession,
    join: worksInSession,
    archive: usesSession,
    extract: worksInSession,
  };
  const drives: Checks<Drives> = {
    get: reads,
    getOrCreate: changes,
    fork: changes,
    byId: reads,
    find: reads,
    resize: changes,
    open: (owner: Owner, _: string, { write = false }: { write?: boolean } = {}) => {
      if (write) requireChange(owner);
    },
    list: reads,
    delete: changes,
  };
  const egress: Checks<EgressLogs> = {
    page: aboutSession,
    follow: aboutSession,
    suggestion: aboutSession,
    tally: aboutSession,
    newest: reads,
  };
  const snapshots: Checks<SnapshotService> = {
    get: aboutSnapshot,
    list: reads,
    timeline: reads,
    change: changesSnapshot,
    delete: changesSnapshot,
    tree: aboutSnapshot,
    async diff(owner: Owner, id: string, target: DiffTarget) {
      await aboutSnapshot(owner, id);
      if (target && "snapshot" in target) await aboutSnapshot(owner, target.snapshot);
      const name = target && "sandbox" in target ? target.sandbox : (await store.getSnapshot(id))?.sandboxName;
      const sandbox = name === undefined ? undefined : await sandboxIn(owner, name);
      // These are the files of a machine, which may reach more than the caller.
      if (sandbox) requireUsable(owner, sandbox.name, sandbox.networkPolicy);
    },
  };
  /** every project of the team can use an image */
  const makesImages = (caller: Caller) => {
    requireChange(caller);
    requireWholeTeam(caller, "an image");
  };
  const builds: Checks<Builds> = {
    receive: makesImages,
    build(owner: Owner, spec: BuildSpec) {
      makesImages(owner);
      const networkPolicy = policyFor(owner, spec.networkPolicy);
      requirePolicy(owner, networkPolicy ?? allowAll, allowAll);
      return [owner, { ...spec, networkPolicy }];
    },
    async fromSnapshot(caller: Caller, id: string) {
      makesImages(caller);
      await aboutSnapshot(caller, id);
    },
    keepUpload: makesImages,
    hasUpload: reads,
    export: reads,
    list: reads,
    listSized: reads,
    get: reads,
    delete: makesImages,
  };
  const pulls: Checks<Pulls> = { pull: makesImages };
  const imageAliases: Checks<ImageAliases> = { list: reads, set: makesImages, delete: makesImages };
  const templates: Checks<Templates> = {
    request: makesImages,
    start(owner: Owner, templateId: string, buildId: string, recipe: Recipe) {
      makesImages(owner);
      const networkPolicy = policyFor(owner, recipe.networkPolicy);
      requirePolicy(owner, networkPolicy ?? allowAll, allowAll);
      return [owner, templateId, buildId, { ...recipe, networkPolicy }];
    },
    build: reads,
    log: reads,
    get: reads,
    lookUp: reads,
    list: reads,
    builds: reads,
    tags: reads,
    assignTags: makesImages,
    removeTags: makesImages,
    publish: makesImages,
    delete: makesImages,
    use: reads,
  };
  /** every project of the team shares them */
  const changesSecrets = (caller: Caller) => {
    requireChange(caller);
    requireWholeTeam(caller, "a secret");
  };
  const secrets: Checks<Secrets> = {
    create: changesSecrets,
    get: reads,
    update: changesSecrets,
    delete: changesSecrets,
    list: reads,
    // The caller chooses where the value is sent.
    filled: changesSecrets,
  };
  const events: Checks<ProjectEvents> = { page: reads, follow: reads };
  /** they leave the host past every network policy */
  const changesWebhooks = (caller: Caller) => {
    requireChange(caller);
    requireAnyPolicy(caller, "a webhook");
  };
  const webhooks: Checks<Webhooks> = {
    list: reads,
    get: reads,
    create: changesWebhooks,
    update: changesWebhooks,
    rotateSecret: changesWebhooks,
    delete: changesWebhooks,
    test: changesWebhooks,
    deliveries: reads,
    redeliver: changesWebhooks,
  };
  const routes: Checks<Routes> = { expose: changes, withdraw: changes, close: changes, find: reads };

  const tell = (of: "sandbox" | "session" | undefined) => (caller: Caller, first: unknown, check: Check) => {
    const { teamId: team, keyId: key } = caller;
    const what = check === aboutCommand ? "command" : of;
    about({ team, ...(key !== undefined && { key }), ...(what && typeof first === "string" && { [what]: first }) });
  };
  return {
    sandboxes: checked(services.sandboxes, sandboxes, tell("sandbox")),
    sessions: checked(services.sessions, sessions, tell("session")),
    commands: checked(services.commands, commands, tell("session")),
    files: checked(services.files, files, tell("session")),
    userFiles: checked(services.userFiles, userFiles, tell("session")),
    egress: checked(services.egress, egress, tell("session")),
    snapshots: checked(services.snapshots, snapshots, tell(undefined)),
    drives: checked(services.drives, drives, tell(undefined)),
    builds: checked(services.builds, builds, tell(undefined)),
    pulls: checked(services.pulls, pulls, tell(undefined)),
    imageAliases: checked(services.imageAliases, imageAliases, tell(undefined)),
    templates: checked(services.templates, templates, tell(undefined)),
    secrets: checked(services.secrets, secrets, tell(undefined)),
    routes: checked(services.routes, routes, tell(undefined)),
    events: checked(services.events, events, tell(undefined)),
    webhooks: checked(services.webhooks, webhooks, tell(undefined)),
  };

  async function forks(owner: Owner, name: string, { networkPolicy }: ForkSpec) {
    requireChange(owner);
    const origin = opened((await sandboxIn(owner, name))?.networkPolicy);
    const policy = networkPolicy ?? origin;
    if (policy) requirePolicy(owner, policy, origin);
  }

  /** the policy of the snapshot's sandbox, even of a deleted one */
  async function policyOfSnapshot(id: string): Promise<NetworkPolicy | undefined> {
    const snapshot = await store.getSnapshot(id);
    return snapshot && opened((await store.getSandbox(snapshot.sandboxId))?.networkPolicy);
  }
}

/** the service, with each listed method calling its check first */
function checked<T extends object>(
  service: T,
  checks: Record<string, Check>,
  tell: (caller: Caller, first: unknown, check: Check) => void,
): T {
  return wrappedService(service, (name, method) => {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (!check) return method;
    return (...args) => {
      const caller = args[0] as Caller; // checked methods take a caller first
      tell(caller, args[1], check);
      if (!caller?.scope) return method(...args);
      return permitted(check, args).then((others) => method(...others));
    };
  });
}

async function permitted(check: Check, args: unknown[]): Promise<unknown[]> {
  // Each check is called with the arguments of its own method only.
  const others = await (check as (...args: unknown[]) => unknown)(...args);
  return Array.isArray(others) ? others : args;
}
