/**
 * A core in memory for tests of the APIs: it has one team and one project, makes sandboxes that run nothing, and
 * records its calls. A test can replace any of its methods.
 */

import { Readable } from "node:stream";
import type { Core } from "../../src/core/core.ts";
import { type ErrorCode, notFound, SandkeepError, type Subject } from "../../src/core/model/errors.ts";
import type { Caller, Command, Drive, Sandbox, Session, Snapshot } from "../../src/core/model/sandbox.ts";
import type { OutputChunk } from "../../src/core/ports/runtime.ts";

export const key = "sk_test";
export const time = 1_800_000_000_000;
export const sessionId = "sbx_0000000000000000000000000001";
export const commandId = "cmd_0000000000000000000000000001";
export const snapshotId = "snap_0000000000000000000000000001";

const owner = { teamId: "team_default", projectId: "prj_default" };
const base = { image: "host", runtime: "node24", cwd: "/vercel/sandbox", user: "vercel-sandbox" };

export const sandbox: Sandbox = {
  ...owner,
  id: "sandbox_1",
  name: "demo",
  persistent: true,
  base,
  vcpus: 2,
  memory: 4096,
  timeout: 300_000,
  networkPolicy: { mode: "allow-all" },
  env: { SECRET: "of the sandbox" },
  tags: {},
  routes: [{ port: 3000, subdomain: "sb-abc" }],
  mounts: {},
  region: "iad1",
  failoverRegions: [],
  currentSessionId: sessionId,
  state: "running",
  stateChangedAt: time,
  totals: { egressBytes: 0, ingressBytes: 0, cpuMs: 0, durationMs: 0 },
  createdAt: time,
  updatedAt: time,
};

export const session: Session = {
  ...owner,
  id: sessionId,
  shortId: "s1",
  sandboxId: sandbox.id,
  sandboxName: sandbox.name,
  state: "running",
  vcpus: 2,
  memory: 4096,
  timeout: 300_000,
  region: "iad1",
  runtime: "node24",
  cwd: base.cwd,
  user: base.user,
  env: sandbox.env,
  persistent: true,
  networkPolicy: { mode: "allow-all" },
  requestedAt: time,
  createdAt: time,
  updatedAt: time,
  startedAt: time,
  expiresAt: time + 300_000,
};

export const command: Command = {
  teamId: owner.teamId,
  id: commandId,
  sessionId,
  name: "echo",
  args: ["hi"],
  cwd: base.cwd,
  startedAt: time,
};

export const endedCommand: Command = { ...command, exitCode: 0, endedAt: time + 7 };

export const snapshot: Snapshot = {
  ...owner,
  id: snapshotId,
  sandboxId: sandbox.id,
  sandboxName: sandbox.name,
  sessionId,
  runtimeId: "r1",
  base,
  region: "iad1",
  state: "created",
  method: "manual",
  sizeBytes: 1234,
  createdAt: time,
  updatedAt: time,
  lastUsedAt: time,
  expiration: 0,
};

export const drive: Drive = {
  ...owner,
  id: "drv_1",
  name: "d1",
  region: "iad1",
  maxSizeBytes: 2 ** 40,
  createdAt: time,
  updatedAt: time,
};

type Method = (...args: never[]) => unknown;
/** replacements of methods, by names such as "sandboxes.create" */
export type Overrides = Record<string, Method>;

export interface Call {
  method: string;
  args: unknown[];
}

export interface FakeCore {
  core: Core;
  /** every call, in order */
  calls: Call[];
  /** the arguments of the calls of one method */
  asked(method: string): unknown[][];
}

export function fakeCore(overrides: Overrides = {}): FakeCore {
  const calls: Call[] = [];
  const methods: Overrides = { ...usual, ...overrides };
  const service = (name: string) =>
    new Proxy(
      {},
      {
        get(_, method: string) {
          if (`${name}.${method}` === "access.logins") return service("logins");
          const work = methods[`${name}.${method}`];
          if (!work) throw new Error(`The fake core has no ${name}.${method}`);
          return (...args: never[]) => {
            calls.push({ method: `${name}.${method}`, args });
            return work(...args);
          };
        },
      },
    );
  const names = [
    "access",
    "sandboxes",
    "sessions",
    "commands",
    "files",
    "userFiles",
    "policies",
    "quotas",
    "teams",
    "egress",
    "snapshots",
    "drives",
    "builds",
    "pulls",
    "imageAliases",
    "templates",
    "secrets",
    "routes",
    "events",
    "webhooks",
    "host",
  ];
  return {
    // Proxies stand for the classes whose methods they have.
    core: Object.fromEntries(names.map((name) => [name, service(name)])) as unknown as Core,
    calls,
    asked: (method) => calls.filter((call) => call.method === method).map(({ args }) => args),
  };
}

export function failing(code: ErrorCode, message = "Cannot: because", about?: Subject): Method {
  return async () => {
    throw new SandkeepError(code, message, about && { about });
  };
}

/** fails like every call for a session that is not running */
export function failingAs(state: "stopped" | "stopping" | "snapshotting"): Method {
  if (state === "stopped") return failing("gone", undefined, { kind: "session" });
  return failing("conflict", undefined, { kind: "session", state });
}

export function chunks(...parts: [OutputChunk["stream"], string | Uint8Array][]): OutputChunk[] {
  let offset = 0;
  return parts.map(([stream, text]) => {
    const data = Buffer.from(text);
    offset += data.length;
    return { offset: offset - data.length, stream, data };
  });
}

export async function* streamOf<T>(items: T[]): AsyncGenerator<T> {
  yield* items;
}

const team = { id: owner.teamId, slug: "default", createdAt: time };
const project = { id: owner.projectId, uuid: "0", teamId: team.id, name: "default", createdAt: time };

const usual: Overrides = {
  "templates.use": async () => undefined,
  "templates.lookUp": async () => undefined,
  "access.authenticate": async (secret: string) => {
    if (secret !== key) throw new SandkeepError("unauthenticated", "No team has this key");
    return { teamId: owner.teamId };
  },
  "access.team": async (_: Caller, wanted?: string) => {
    if (wanted !== undefined && wanted !== team.id && wanted !== team.slug) {
      throw new SandkeepError("forbidden", `Not authorized: this key is not one of team "${wanted}"`);
    }
    return team;
  },
  "access.actingFor": async (caller: Caller, wanted?: string) => {
    if (wanted !== undefined && wanted !== team.id && wanted !== team.slug) {
      throw new SandkeepError("forbidden", `Not authorized: this key is not one of team "${wanted}"`);
    }
    return caller;
  },
  "access.keyOf": () => ({ id: "key_1", name: "first" }),
  "access.teams": async () => [team],
  "access.owner": async (_: Caller, scope: { project?: string }) => {
    if (scope.project === "prj_foreign") throw new SandkeepError("forbidden", "Not authorized");
    if (scope.project === "prj_unknown") throw new SandkeepError("not-found", "Project not found");
    return owner;
  },
  "access.project": async (_: Caller, __: string | undefined, name: string) => {
    if (name !== project.id && name !== project.name) throw new SandkeepError("not-found", "Project not found");
    return project;
  },
  "access.createProject": async (_: Caller, __: string | undefined, name: string) => ({ ...project, name }),
  "sandboxes.create": async () => ({ sandbox, session }),
  "sandboxes.get": async (_: Caller, name: string) => {
    if (name !== sandbox.name) throw notFound("sandbox", name);
    return { sandbox, session };
  },
  "sandboxes.resume": async () => ({ sandbox, session, resumed: true }),
  "sandboxes.list": async () => ({ items: [sandbox] }),
  "sandboxes.listWithSessions": async () => ({ items: [{ sandbox, session }] }),
  "sandboxes.update": async () => sandbox,
  "sandboxes.delete": async () => ({ ...sandbox, state: "stopped" }),
  "sandboxes.fork": async () => ({ sandbox, session }),
  "sandboxes.abandon": async () => undefined,
  "sessions.get": async (_: Caller, id: string) => {
    if (id !== sessionId) throw new SandkeepError("not-found", `Session "${id}" not found.`);
    return session;
  },
  "sessions.running": async () => ({ session }),
  "sessions.list": async () => ({ items: [session], next: "more" }),
  "sessions.ofSandbox": async () => ({ items: [session], next: "more" }),
  "sessions.timeline": async () => ({ items: [session], total: 1 }),
  "sessions.sandboxOf": async () => sandbox,
  "sessions.stop": async () => ({
    session: { ...session, state: "stopped" },
    sandbox,
    snapshot: { ...snapshot, method: "automatic" },
  }),
  "sessions.extend": async () => session,
  "sessions.setNetworkPolicy": async () => session,
  "sessions.snapshot": async () => ({ snapshot, session: { ...session, state: "stopped" } }),
  "commands.run": async () => command,
  "commands.get": async () => endedCommand,
  "commands.list": async () => [endedCommand],
  "commands.wait": async () => endedCommand,
  "commands.output": async () => streamOf(chunks(["stdout", "hi\n"])),
  "commands.kill": async () => command,
  "commands.write": async () => undefined,
  "commands.resize": async () => undefined,
  "files.read": async () => Readable.from([Buffer.from("hello")]),
  "files.mkdir": async () => undefined,
  "files.extract": async (_: Caller, __: string, ___: string, tar: AsyncIterable<Uint8Array>) => {
    for await (const _chunk of tar);
  },
  "egress.page": async (_: Caller, __: string, { after }: { after: number }) => ({
    session,
    lines: [],
    next: after,
    more: false,
    hosts: [],
    ports: [],
    totals: { ingressBytes: 0, egressBytes: 0 },
  }),
  "egress.follow": async () => streamOf([]),
  "snapshots.get": async () => snapshot,
  "snapshots.list": async () => ({ items: [snapshot] }),
  "snapshots.timeline": async () => ({ items: [snapshot], total: 1 }),
  "snapshots.delete": async () => ({ ...snapshot, state: "deleted" }),
  "snapshots.tree": async () => ({ anchor: { snapshot, siblings: [], count: 0, more: false }, nodes: [] }),
  "drives.getOrCreate": async () => ({ drive, created: true }),
  "drives.list": async () => ({ items: [drive] }),
  "drives.delete": async () => drive,
  "logins.begin": () => ({ deviceCode: "dc_1", userCode: "ABCD-EFGH", expiresIn: 600, interval: 1 }),
  "logins.poll": () => "pending",
  "logins.approve": () => undefined,
  "logins.deny": () => undefined,
};
