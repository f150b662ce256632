/** A project that never changes, for pictures of the dashboard: its sandboxes, what they did, and how busy they are. */

import type { Output } from "../../../src/client/types.ts";

type Sandbox = Output<"getSandbox">;
type Command = Output<"listCommands">["commands"][number];
type Activity = Output<"listActivity">["activity"][number];

/** the time in every picture, in ms since 1970 */
export const noon = Date.UTC(2026, 10, 17, 12);
export const minute = 60_000;

/** name, tag, image, age in minutes, state, minutes left, API, GiB of memory, exit code of the last command, that command */
const table = `
  crawler       | agent=scout | universal  |  14 | running      |  31 | vercel    | 1.4 |     | node crawl.mjs --depth 3
  eval-shard-07 | suite=swe   | python3.13 |  16 | running      |  44 | mcp       | 0.9 | 1   | pytest -x tests/
  eval-shard-08 | suite=swe   | python3.13 |  17 | running      |  43 | mcp       | 3.8 | 0   | pytest -x tests/
  build-arm64   | repo=core   | node24     |  21 | failed       |     | vercel    |     | 137 | make -j8 release
  pr-4182       | repo=web    | node24     |  48 | running      |  12 | vercel    | 3.3 |     | npm run test -- --shard 2/4
  scraper-eu    | agent=scout | universal  |  51 | running      |   9 | vercel    | 0.7 |     | node crawl.mjs --region eu
  data-prep     | team=ml     | python3.13 | 124 | snapshotting |     | instavm   |     | 0   | python ingest.py
  repro-9f31    | bug=9f31    | universal  | 183 | paused       |     | mcp       |     |     | gdb -p 214
  notebook-ana  | owner=ana   | universal  | 188 | running      | 112 | veryfront | 0.6 |     | jupyter lab --port 8888
  pr-4180       | repo=web    | node24     | 244 | stopped      |     | vercel    |     | 0   | npm run build
`;

interface Row {
  sandbox: Sandbox;
  command: Command;
  /** bytes of memory in use; undefined unless it runs */
  memory: number | undefined;
}

const rows = table.trim().split("\n").map(rowOf);

/** newest first */
export const sandboxes: Sandbox[] = rows.map(({ sandbox }) => sandbox);
/** the sandbox whose page is in pictures */
export const crawler = sandboxes[0] as Sandbox; // the table has rows

function rowOf(line: string, at: number): Row {
  const [name = "", tag = "", image = "", age, state, left, wire = "", memory, exitCode, words = ""] = line
    .split("|")
    .map((cell) => cell.trim());
  const createdAt = noon - Number(age) * minute;
  const isFailed = state === "failed";
  const networkPolicy: Sandbox["networkPolicy"] =
    at === 0
      ? { mode: "custom", domains: [{ domain: "web.test", rules: [] }], allowedCidrs: [], deniedCidrs: [] }
      : { mode: "deny-all", domains: [], allowedCidrs: [], deniedCidrs: [] };
  const common = {
    projectId: "prj_default",
    state: state as Sandbox["state"], // the table has only states
    vcpus: 2,
    memory: 4096,
    timeout: (Number(age) + Number(left)) * minute,
    lifetime: "fixed" as const,
    persistent: true,
    region: "local",
    runtime: null,
    networkPolicy,
    createdAt,
  };
  const session: Sandbox["session"] = {
    ...common,
    id: `sbx_${String(at).padStart(32, "0")}`,
    sandbox: name,
    sandboxId: `sb_${at}`,
    cwd: "/workspace",
    user: "user",
    sourceSnapshotId: null,
    startedAt: createdAt,
    expiresAt: left === "" ? null : noon + Number(left) * minute,
    pausedAt: state === "paused" ? noon - 20 * minute : null,
    endedAt: isFailed || state === "stopped" ? noon - 9 * minute : null,
    endCause: isFailed ? "out-of-memory" : null,
    endReason: isFailed ? "killed: out of memory at 4 GiB" : null,
    use: isFailed || state === "stopped" ? { durationMs: 0, cpuMs: 0, bytesIn: 0, bytesOut: 0 } : null,
  };
  const sandbox: Sandbox = {
    ...common,
    id: session.sandboxId,
    name,
    stateChangedAt: noon - 9 * minute,
    image,
    onTimeout: "stop",
    envNames: [],
    tags: Object.fromEntries([tag.split("=")]),
    ports: [],
    mounts: {},
    snapshotExpiration: null,
    keepLastSnapshots: null,
    currentSnapshotId: null,
    session,
    totals: { durationMs: 0, cpuMs: 0, bytesIn: at * 8_100_000, bytesOut: at * 93_000 },
    madeBy: { keyId: "key_1", wire },
    updatedAt: createdAt,
  };
  return {
    sandbox,
    command: commandOf(session.id, at, words, exitCode === "" ? null : Number(exitCode)),
    memory: memory === "" ? undefined : Number(memory) * 2 ** 30,
  };
}

/** commands are minutes apart, and one that ended took 12.1 s */
export function commandOf(sessionId: string, at: number, words: string, exitCode: number | null): Command {
  const startedAt = noon - (at + 4) * minute;
  return {
    id: `cmd_${String(at).padStart(32, "0")}`,
    sessionId,
    command: "sh",
    args: ["-c", words],
    cwd: "/workspace",
    startedAt,
    endedAt: exitCode === null ? null : startedAt + 12_100,
    exitCode,
    endCause: null,
  };
}

/** what they do after so many ticks of the pictures' clock, and did in the last minutes */
export function activityAt(tick: number): Activity[] {
  return rows.map(({ sandbox, command, memory }, at) => ({
    sandbox: sandbox.name,
    session: sandbox.session.id,
    command,
    load: memory === undefined ? null : { processors: wave(tick + at, 2), memory, processes: 7 },
    traffic: sandbox.session.use ? null : { bytesIn: at * 1_100_000, bytesOut: at * 7000 },
    samples:
      memory === undefined
        ? null
        : [...Array(9 + 7 * at).keys()].map((before) => ({
            at: noon - (9 + 7 * at - before) * 10_000,
            processors: wave(before / 4 + at, 2),
          })),
  }));
}

/** a number between 0 and `most` that goes up and down */
export function wave(tick: number, most: number): number {
  return Math.round(most * 50 * (1 + Math.sin(tick * 1.3) * 0.8)) / 100;
}
