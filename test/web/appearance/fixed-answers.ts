/** What a daemon with the fixed project answers, for pictures of the dashboard. The compiler compares it with the API. */

import type { Line, OperationId, Output } from "../../../src/client/types.ts";
import { activityAt, commandOf, crawler, minute, noon, sandboxes, wave } from "./fixed-sandboxes.ts";

/** each gets the number of ticks of the pictures' clock, and the query */
type Answers = { [Id in OperationId]?: (tick: number, query: URLSearchParams) => Output<Id> };

const { id: session } = crawler.session;
const gibibyte = 2 ** 30;

export const fixedAnswers: Answers = {
  getCaller: () => ({
    ...{ teamId: "team_default", team: "default", projectId: "prj_default", project: "default" },
    ...{ key: { id: "key_1", name: "ci" }, readOnly: false, admin: true },
  }),
  listTeams: () => ({ teams: [{ id: "team_default", slug: "default", createdAt: 0 }], next: null }),
  listProjects: () => ({
    projects: ["default", "nightly"].map((name) => ({
      ...{ id: `prj_${name}`, name, teamId: "team_default", createdAt: 0 },
    })),
    next: null,
  }),
  listSandboxes: () => ({ sandboxes, next: null }),
  getSandbox: () => crawler,
  listActivity: (tick) => ({ activity: activityAt(tick) }),
  readEvents: (_, query) => ({ events: query.has("after") ? [] : events, next: "5" }),
  listEgress: () => ({ events: refused, next: null }),
  getCapacity: (tick) => ({
    machines: { running: 7, paused: 1, hot: 2, warm: 1 },
    processors: { count: 16, busy: wave(tick, 10), load: 6.4 },
    memory: { total: 64 * gibibyte, available: 26 * gibibyte },
    sessions: { pending: 0, running: 6, paused: 1, snapshotting: 1, stopping: 0 },
    disk: {
      places: [
        { place: "disk", total: 880e9, free: 668e9, reserve: 2 * gibibyte },
        { place: "store", total: 90e9, free: 3e9, reserve: 2 * gibibyte },
      ],
      isGrowthStopped: false,
    },
    openFiles: { now: 9120, most: 1_232_893 },
    tcpMemory: { now: 368_640, most: 786_036_736 },
  }),
  getQuota: () => ({
    limits: { sandboxes: 20, vcpus: 16, memory: 65_536, createsPerMinute: 60, disk: null, imageDisk: null },
    use: { sandboxes: 7, vcpus: 14, memory: 28_672, createsPerMinute: 2, disk: 4096, imageDisk: 512 },
  }),
  getDiagnosis: () => ({
    ok: true,
    isolation: ["namespaces", "seccomp", "cgroups"],
    findings: [
      { name: "user", state: "ok", detail: "root", fix: null },
      { name: "kernel", state: "ok", detail: "6.12", fix: null },
      { name: "swap", state: "warning", detail: "the host has none", fix: "fallocate -l 4G /swap && swapon /swap" },
    ],
  }),
  listKeys: () => ({
    keys: ["ci", "ana"].map((name, at) => ({
      id: `key_${at + 1}`,
      name,
      hint: `a${at}f`,
      projectId: null,
      readOnly: at > 0,
      policyCeiling: null,
      admin: at === 0,
      createdAt: noon - 90 * minute,
      expiresAt: null,
      lastUsedAt: at === 0 ? noon - minute : null,
    })),
    next: null,
  }),
  listAudit: () => ({
    entries: ["sandbox.create", "command.run", "file.write", "key.delete"].map((action, at) => ({
      id: `aud_${at}`,
      at: noon - at * minute,
      teamId: "team_default",
      projectId: "prj_default",
      keyId: "key_1",
      wire: "vercel",
      address: "127.0.0.1",
      action,
      target: at === 3 ? "key_9" : "crawler",
      sessionId: null,
      outcome: at === 3 ? "forbidden" : "done",
    })),
    next: null,
  }),
  listSnapshots: () => ({ snapshots, next: null }),
  listImages: () => ({
    images: ["universal", "python3.13", "node24"].map((name) => ({
      name,
      digest: `sha256:${"0".repeat(64)}`,
      createdAt: noon - 600 * minute,
      entrypoint: [],
      command: ["sh"],
      stopSignal: null,
      user: "user",
      cwd: "/workspace",
      ports: [],
      own: false,
      size: { total: 0, shared: 0, own: 0 },
      layers: 1,
      source: null,
    })),
  }),
  listDrives: () => ({
    drives: ["cache", "models"].map((name, at) => ({
      id: `drv_${at}`,
      name,
      projectId: "prj_default",
      region: "local",
      maxSize: 10 * gibibyte,
      parentId: null,
      sessionId: at === 0 ? session : null,
      sandbox: at === 0 ? "crawler" : null,
      createdAt: noon - 300 * minute,
      updatedAt: noon - 300 * minute,
    })),
    next: null,
  }),
  listSessions: (_, query) => ({
    sessions: query.has("sandbox") ? [crawler.session] : sandboxes.map(quickly),
    next: null,
  }),
  listCommands: () => ({
    commands: commands.map(([line, exit], at) => commandOf(session, at, line, exit)),
    next: null,
  }),
  getTape: () => ({
    from: crawler.createdAt,
    to: noon,
    step: minute / 2,
    sessions: [],
    snapshots: snapshots.map(({ id, name, createdAt }) => ({ id, name, createdAt })),
    buckets: [...Array(28).keys()].map((part) => {
      const at = crawler.createdAt + (part * minute) / 2;
      const lines = log.filter((line) => Number(line.at) >= at && Number(line.at) < at + minute / 2);
      const count = (allowed: boolean) => lines.filter((line) => line.allowed === allowed).length;
      return {
        at,
        commands: { started: commands[part] ? 1 : 0, failed: 0, running: 1 },
        egress: { allowed: count(true), refused: count(false) },
        snapshots: 0,
        processors: wave(part, 2),
      };
    }),
    truncated: { sessions: false, snapshots: false, egress: false },
  }),
  listUsageSamples: () => ({
    samples: [...Array(28).keys()].map((at) => ({
      at: crawler.createdAt + (at + 1) * (minute / 2),
      processors: wave(at, 2),
      memory: 1.4 * gibibyte,
      disk: 40e6,
      processes: 7,
      bytesIn: at * 1_000_000,
      bytesOut: at * 40_000,
    })),
  }),
  listFiles: () => ({ files }),
  readEgressLog: (_, query) => ({
    session: { id: session, sandbox: crawler.name, state: crawler.state },
    events: query.get("after") === "0" ? log : [],
    next: log.length,
    more: false,
    hosts: [{ host: "web.test", connections: 3, bytesIn: 41_000_000, bytesOut: 1_100_000 }],
    ports: [],
    totals: { payload: { bytesIn: 0, bytesOut: 0 }, packets: { bytesIn: 0, bytesOut: 0 } },
  }),
};

/** its session, with the time that its boot took */
function quickly({ session }: (typeof sandboxes)[number], at: number): (typeof sandboxes)[number]["session"] {
  return { ...session, startedAt: session.createdAt + 4 + at };
}

/** what a command has printed, as a stream */
export const fixedOutput: Line<"readOutput">[] = [
  { stream: "stdout", data: btoa("queue 1 seeds, depth 3\n"), offset: 0, next: 23, dropped: 0 },
  { stream: "stderr", data: btoa("1 test failed: retries after a refusal\n"), offset: 23, next: 62, dropped: 0 },
];

const commands: [string, number | null][] = [
  ["node crawl.mjs --depth 3", null],
  ["npm test", 1],
  ["npm ci", 0],
];

const events: Output<"readEvents">["events"] = [
  { type: "sandbox.created", sandbox: "crawler" },
  { type: "session.running", sandbox: "crawler" },
  { type: "command.ended", sandbox: "eval-shard-07", exitCode: 1 },
  { type: "session.failed", sandbox: "build-arm64", reason: "killed: out of memory at 4 GiB" },
  { type: "snapshot.created", sandbox: "crawler", name: "deps" },
].map((event, at) => ({ ...event, cursor: String(at + 1), at: noon - (14 - at) * minute }));

const snapshots: Output<"listSnapshots">["snapshots"] = ["base", "deps"].map((name, at) => ({
  id: `snap_${at}`,
  name,
  sandbox: crawler.name,
  sandboxId: crawler.id,
  sessionId: session,
  projectId: "prj_default",
  parentId: at === 0 ? null : "snap_0",
  image: "universal",
  state: "created",
  method: at === 0 ? "automatic" : "manual",
  size: (at + 1) * 40e6,
  region: "local",
  createdAt: noon - (12 - at * 4) * minute,
  lastUsedAt: noon - minute,
  expiration: 0,
  expiresAt: null,
}));

/** name, type, bytes, and the permission bits */
const listed = [
  ["app", "directory", 4096, 0o755],
  ["out", "directory", 4096, 0o755],
  ["README.md", "file", 1204, 0o644],
  ["crawl.mjs", "file", 41_093, 0o755],
  ["seeds.csv", "file", 2_411_008, 0o600],
] as const;

const files: Output<"listFiles">["files"] = listed.map(([name, type, size, mode]) => ({
  name,
  path: `${crawler.session.cwd}/${name}`,
  type,
  size,
  mode,
  uid: 1000,
  gid: 1000,
  owner: "user",
  group: "user",
  modifiedAt: noon - 6 * minute,
  target: null,
  targetType: null,
}));

const reason = 'the policy does not allow "tracker.example.org"';
const refusal = { name: "tracker.example.org", port: 443, allowed: false, missing: "tracker.example.org", reason };
const log: Output<"readEgressLog">["events"] = [
  { id: 1, name: "web.test", port: 443, allowed: true, ended: 1, bytesIn: 41_000_000, bytesOut: 1_100_000 },
  { id: 2, ...refusal, count: 4 },
  { id: 3, name: "web.test", allowed: true, protocol: "dns" },
].map((line) => ({ protocol: "tls", program: "node", at: noon - (8 - line.id) * minute, ...line }));

const refused: Output<"listEgress">["events"] = [0, 5].map((at) => ({
  session: sandboxes[at]?.session.id ?? "",
  sandbox: sandboxes[at]?.name ?? "",
  id: at + 1,
  at: noon - (at + 1) * minute,
  protocol: "tls",
  program: "node",
  ...refusal,
  count: at + 7,
}));
