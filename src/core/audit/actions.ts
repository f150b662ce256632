/**
 * Which calls the audit records, and as what. Each method that takes a caller needs an entry here, or this file does not
 * compile: an action, or `unrecorded` for a method that only reads.
 *
 * Three kinds of changes are not recorded: input to a command and the size of its terminal, since the audit has the start
 * of the command; and signs of life of a session.
 */

import type { Access } from "../access/access.ts";
import type { Guarded } from "../access/permissions.ts";
import type { Quotas } from "../access/quotas.ts";
import type { Teams } from "../access/teams.ts";
import type { Host } from "../host.ts";
import type { AuditEntry } from "../model/audit.ts";
import type { Caller, Owner } from "../model/sandbox.ts";
import { wrappedService } from "../wrapped-service.ts";
import { isStream, untilItsEnd } from "./streams.ts";

/** The services whose calls may be recorded. */
export interface Recorded extends Guarded {
  access: Access;
  quotas: Quotas;
  teams: Teams;
  host: Host;
}

export interface Action {
  name: string;
  /** `args` are those after the caller; `result` is undefined if the call failed. Undefined if it changed nothing */
  about(args: readonly unknown[], result: unknown): Pick<AuditEntry, "target" | "sessionId"> | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: only the first parameter matters
type TakesCaller<F> = F extends (caller: infer C, ...args: any[]) => unknown
  ? Owner extends C
    ? // Anything is a caller to a parameter of an unknown type.
      unknown extends C
      ? false
      : true
    : false
  : false;

/** an entry for every method whose first argument is a caller */
export type ActionsOf<T> = {
  [K in keyof T as TakesCaller<T[K]> extends true ? K : never]: Action | undefined;
};

const unrecorded = undefined;

/** the first argument is the name or id of the thing */
function onThing(name: string): Action {
  return { name, about: ([thing]) => textAs("target", thing) };
}

/** the action, unless the result's member of this name is false: then nothing has changed */
function provided(changed: string, action: Action): Action {
  return {
    ...action,
    about: (args, result) => (at(result, [changed]) === false ? undefined : action.about(args, result)),
  };
}

/** the result has the name or id of the thing, at this path; of a failed call, the first argument may have its name */
function makes(name: string, ...path: string[]): Action {
  return {
    name,
    about: ([first], result) => ({
      ...textAs("target", at(result, path) ?? (typeof first === "string" ? first : at(first, ["name"]))),
      ...textAs("sessionId", at(result, ["session", "id"])),
    }),
  };
}

/** the first argument is a session */
function onSession(name: string): Action {
  return { name, about: ([session]) => ({ ...textAs("target", session), ...textAs("sessionId", session) }) };
}

/** the first argument is a session, and the second a thing in it: an id, a path or a place with a path */
function inSession(name: string): Action {
  return {
    name,
    about: ([session, thing]) => ({
      ...textAs("target", typeof thing === "string" ? thing : at(thing, ["path"])),
      ...textAs("sessionId", session),
    }),
  };
}

/** the first argument is a session, and the result has the id of what was made in it */
function makesInSession(name: string, ...path: string[]): Action {
  return {
    name,
    about: ([session], result) => ({ ...textAs("target", at(result, path)), ...textAs("sessionId", session) }),
  };
}

export const actions: { [S in keyof Recorded]: ActionsOf<Recorded[S]> } = {
  sandboxes: {
    create: makes("sandbox.create", "sandbox", "name"),
    get: unrecorded,
    byId: unrecorded,
    list: unrecorded,
    listWithSessions: unrecorded,
    count: unrecorded,
    resume: provided("resumed", makes("sandbox.resume", "sandbox", "name")),
    update: onThing("sandbox.update"),
    delete: onThing("sandbox.delete"),
    fork: makes("sandbox.fork", "sandbox", "name"),
    branch: makes("sandbox.fork", "sandbox", "name"),
    abandon: onThing("sandbox.delete"),
  },
  sessions: {
    get: unrecorded,
    list: unrecorded,
    ofSandbox: unrecorded,
    timeline: unrecorded,
    summaries: unrecorded,
    listWithSandboxes: unrecorded,
    successor: unrecorded,
    settled: unrecorded,
    sandboxOf: unrecorded,
    running: unrecorded,
    use: unrecorded,
    heartbeat: unrecorded,
    stop: onSession("session.stop"),
    pause: onSession("session.pause"),
    extend: onSession("session.extend"),
    setTimeout: onSession("session.extend"),
    endIn: onSession("session.extend"),
    setNetworkPolicy: onSession("session.set-network-policy"),
    snapshot: makesInSession("snapshot.create", "snapshot", "id"),
    checkpoint: makesInSession("snapshot.create", "snapshot", "id"),
    checkpointOrCopy: makesInSession("snapshot.create", "snapshot", "id"),
    // It shows secrets that the sandbox was given.
    environment: onSession("session.read-environment"),
    usage: unrecorded,
    load: unrecorded,
    samples: unrecorded,
    concurrency: unrecorded,
  },
  commands: {
    run: {
      name: "command.run",
      about: ([session, spec], result) => ({
        ...textAs("target", at(result, ["id"]) ?? programOf(spec) ?? session),
        ...textAs("sessionId", session),
      }),
    },
    get: unrecorded,
    find: unrecorded,
    recent: unrecorded,
    exit: unrecorded,
    list: unrecorded,
    page: unrecorded,
    tally: unrecorded,
    wait: unrecorded,
    output: unrecorded,
    running: unrecorded,
    process: unrecorded,
    kill: inSession("command.signal"),
    cancel: inSession("command.signal"),
    write: unrecorded,
    append: unrecorded,
    feed: unrecorded,
    closeStdin: unrecorded,
    resize: unrecorded,
  },
  files: {
    read: unrecorded,
    readPart: unrecorded,
    list: unrecorded,
    search: unrecorded,
    write: inSession("file.write"),
    mkdir: inSession("file.make-directory"),
    extract: inSession("file.extract"),
    open: onSession("file.write"),
  },
  userFiles: {
    account: unrecorded,
    absolute: unrecorded,
    stat: unrecorded,
    list: unrecorded,
    read: unrecorded,
    watch: unrecorded,
    makeDirectory: inSession("file.make-directory"),
    move: inSession("file.move"),
    remove: inSession("file.remove"),
    write: inSession("file.write"),
    join: {
      name: "file.write",
      about: ([session, , place]) => ({ ...textAs("target", at(place, ["path"])), ...textAs("sessionId", session) }),
    },
    archive: unrecorded,
    extract: inSession("file.extract"),
  },
  egress: {
    page: unrecorded,
    follow: unrecorded,
    suggestion: unrecorded,
    tally: unrecorded,
    newest: unrecorded,
  },
  snapshots: {
    get: unrecorded,
    list: unrecorded,
    timeline: unrecorded,
    change: onThing("snapshot.change"),
    delete: onThing("snapshot.delete"),
    tree: unrecorded,
    diff: unrecorded,
  },
  drives: {
    get: unrecorded,
    getOrCreate: provided("created", onThing("drive.create")),
    fork: { name: "drive.fork", about: ([, fork]) => textAs("target", fork) },
    byId: unrecorded,
    find: unrecorded,
    resize: onThing("drive.resize"),
    open: {
      name: "drive.write",
      about: ([drive, options], _) => (at(options, ["write"]) === true ? textAs("target", drive) : undefined),
    },
    list: unrecorded,
    delete: onThing("drive.delete"),
  },
  builds: {
    receive: { name: "image.upload", about: () => ({}) },
    build: makes("image.build"),
    fromSnapshot: { name: "image.create", about: ([, image]) => textAs("target", image) },
    keepUpload: { name: "image.upload", about: () => ({}) },
    hasUpload: unrecorded,
    export: unrecorded,
    list: unrecorded,
    listSized: unrecorded,
    get: unrecorded,
    delete: onThing("image.delete"),
  },
  pulls: { pull: { name: "image.pull", about: ([spec]) => textAs("target", at(spec, ["reference"])) } },
  imageAliases: { list: unrecorded, set: onThing("image.set-alias"), delete: onThing("image.delete-alias") },
  templates: {
    request: makes("template.build", "template", "id"),
    start: onThing("template.build"),
    build: unrecorded,
    log: unrecorded,
    get: unrecorded,
    lookUp: unrecorded,
    list: unrecorded,
    builds: unrecorded,
    tags: unrecorded,
    assignTags: onThing("template.tag"),
    removeTags: onThing("template.tag"),
    publish: onThing("template.publish"),
    delete: onThing("template.delete"),
    use: unrecorded,
  },
  secrets: {
    create: onThing("secret.create"),
    get: unrecorded,
    update: onThing("secret.update"),
    delete: onThing("secret.delete"),
    list: unrecorded,
    // The argument is a text around the names of secrets, so only the fact is recorded.
    filled: { name: "secret.use", about: () => ({}) },
  },
  routes: {
    expose: onThing("port.open"),
    withdraw: onThing("port.close"),
    close: onThing("port.close"),
    find: unrecorded,
  },
  events: { page: unrecorded, follow: unrecorded },
  webhooks: {
    list: unrecorded,
    get: unrecorded,
    create: makes("webhook.create", "webhook", "id"),
    update: onThing("webhook.update"),
    rotateSecret: onThing("webhook.rotate-secret"),
    delete: onThing("webhook.delete"),
    test: onThing("webhook.test"),
    deliveries: unrecorded,
    redeliver: { name: "webhook.redeliver", about: ([, delivery]) => textAs("target", delivery) },
  },
  access: {
    owner: unrecorded,
    keyOf: unrecorded,
    actingFor: unrecorded,
    visibleTeams: unrecorded,
    createTeam: makes("team.create", "id"),
    projects: unrecorded,
    team: unrecorded,
    teams: unrecorded,
    project: unrecorded,
    createProject: {
      name: "project.create",
      about: ([, name], result) => textAs("target", at(result, ["id"]) ?? name),
    },
    // The entry's keyId says whose sign-in it is.
    signIn: { name: "key.sign-in", about: () => ({}) },
    linkToSignIn: { name: "key.make-sign-in-link", about: () => ({}) },
    keys: unrecorded,
    createKey: makes("key.create", "key", "id"),
    renameKey: onThing("key.rename"),
    deleteKey: onThing("key.delete"),
  },
  teams: { delete: onThing("team.delete") },
  quotas: {
    get: unrecorded,
    set: { name: "quota.set", about: () => ({}) },
    getOfKey: unrecorded,
    setOfKey: onThing("quota.set"),
  },
  host: {
    vitals: unrecorded,
    diagnosis: unrecorded,
    upgrade: { name: "host.upgrade", about: () => ({}) },
    pruneImages: { name: "image.prune", about: () => ({}) },
  },
};

/** the service; `begin` is called with its listed calls, and its result when the call, or the stream that it returns, has ended */
export function recorded<T extends object>(
  service: T,
  listed: Record<string, Action | undefined>,
  begin: (caller: Caller, action: Action, args: readonly unknown[]) => (ended: Ended) => void,
): T {
  return wrappedService(service, (name, method) => {
    const action = Object.hasOwn(listed, name) ? listed[name] : undefined;
    if (!action) return method;
    return async (...args) => {
      const [caller, ...others] = args as [Caller, ...unknown[]]; // listed methods take a caller first
      const record = begin(caller, action, others);
      try {
        const result = await method(...args);
        if (isStream(result)) {
          return untilItsEnd(result, (error) => record(error ? { error } : { result }));
        }
        record({ result });
        return result;
      } catch (error) {
        record({ error });
        throw error;
      }
    };
  });
}

/** the program of a command that did not start; undefined for text that may be a whole line with its arguments */
function programOf(spec: unknown): string | undefined {
  const name = at(spec, ["name"]);
  return typeof name === "string" && /^[\w./+-]{1,64}$/.test(name) ? name : undefined;
}

/** How a call ended. */
export type Ended = { result: unknown; error?: undefined } | { error: unknown; result?: undefined };

function textAs<K extends "target" | "sessionId">(name: K, value: unknown): { [N in K]?: string } {
  return (typeof value === "string" ? { [name]: value } : {}) as { [N in K]?: string }; // one computed member
}

/** the member at a path; undefined where there is none */
function at(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const name of path) {
    if (typeof found !== "object" || found === null) return undefined;
    found = Reflect.get(found, name);
  }
  return path.length === 0 ? undefined : found;
}
