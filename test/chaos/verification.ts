/** Compares a daemon with its clients' knowledge: each difference is a violation. No client may use it meanwhile. */

import { raw } from "../e2e/clients.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { eventually } from "../harness/harness.ts";
import { changedNumbers, collisionsIn, lookCommand, parseLook } from "../runtime/inode-look.ts";
import { absent, type Knowledge, type KnownCommand, type KnownSandbox } from "./knowledge.ts";

/** transitional states of a session */
const passing = ["pending", "stopping", "snapshotting"];

export async function verify(daemon: TestDaemon, known: Knowledge): Promise<void> {
  known.trim();
  await verifyLists(daemon, known);
  await Promise.all(known.sandboxes.map((sandbox) => new SandboxCheck(daemon, known, sandbox).run()));
}

/** names are unique and known, no session stays in transition, and each running one is its sandbox's current one */
async function verifyLists(daemon: TestDaemon, known: Knowledge): Promise<void> {
  await eventually("no session is on its way", async () => {
    const sessions = await listed(daemon, "/v2/sandboxes/sessions", "sessions");
    const onTheirWay = sessions.filter(({ status }) => passing.includes(status));
    if (onTheirWay.length > 0) throw new Error(JSON.stringify(onTheirWay));
    return true;
  }).catch((error) => known.violations.push(`${error} ${error.cause}`));
  const sandboxes = await listed(daemon, "/v2/sandboxes", "sandboxes");
  const names = sandboxes.map(({ name }) => name);
  const knownNames = new Set(known.sandboxes.map(({ name }) => name));
  for (const name of names.filter((name, index) => names.indexOf(name) !== index || !knownNames.has(name)))
    known.violations.push(`the list of sandboxes has "${name}", which is unknown or there twice`);
  // The session of a sandbox that was just deleted may still be ending.
  await eventually("each session that runs is the current one of a sandbox", async () => {
    const running = await runningSessions(daemon);
    const sandboxes = await listed(daemon, "/v2/sandboxes", "sandboxes");
    const current = new Set(sandboxes.map(({ currentSessionId }) => currentSessionId));
    const others = running.filter(({ id }) => !current.has(id));
    if (others.length > 0) throw new Error(JSON.stringify(others));
    return true;
  }).catch((error) => known.violations.push(`${error} ${error.cause}`));
}

export async function runningSessions(daemon: TestDaemon): Promise<Listed[]> {
  const sessions = await listed(daemon, "/v2/sandboxes/sessions", "sessions");
  return sessions.filter(({ status }) => status === "running");
}

/** those that are shown as stopped, but have not ended */
export async function pausedSessions(daemon: TestDaemon): Promise<Listed[]> {
  const sessions = await listed(daemon, "/v2/sandboxes/sessions", "sessions");
  return sessions.filter(({ status, duration }) => status === "stopped" && duration === undefined);
}

interface Listed {
  id: string;
  name: string;
  status: string;
  /** set once it has ended */
  duration?: number;
  currentSessionId: string;
}

/** all pages of a list */
async function listed(daemon: TestDaemon, path: string, member: string): Promise<Listed[]> {
  const all: Listed[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { json } = await raw(daemon, "GET", `${path}?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    all.push(...json[member]);
    cursor = json.pagination.next;
  }
  return all;
}

class SandboxCheck {
  readonly #daemon: TestDaemon;
  readonly #known: Knowledge;
  readonly #sandbox: KnownSandbox;

  constructor(daemon: TestDaemon, known: Knowledge, sandbox: KnownSandbox) {
    this.#daemon = daemon;
    this.#known = known;
    this.#sandbox = sandbox;
  }

  async run(): Promise<void> {
    const { name, existence, tags, commands, snapshots } = this.#sandbox;
    const found = await this.#get(`/v2/sandboxes/${name}?resume=true`);
    if (found.status === 404 && existence !== "there") {
      this.#sandbox.existence = "gone";
      return;
    }
    // A fork is not persistent: if its host fails before it is deleted, there is nothing to resume it from.
    if (existence === "unknown" && name.startsWith("chaos-fork-") && found.json?.error?.code === "snapshot_not_found")
      return;
    if (found.status !== 200 || existence === "gone") {
      this.#violated(`which is ${existence}, is answered ${found.status}: ${found.text}`);
      return;
    }
    this.#sandbox.existence = "there";
    const shown = JSON.stringify(found.json.sandbox.tags ?? {});
    if (!tags.has(shown)) this.#violated(`has the tags ${shown}, not ${[...tags].join(" or ")}`);
    await this.#verifyFiles(found.json.session.id);
    for (const command of commands) await this.#verifyCommand(command);
    for (const id of snapshots) {
      const { json, text } = await this.#get(`/v2/sandboxes/snapshots/${id}`);
      if (json.snapshot?.status !== "created") this.#violated(`has lost snapshot ${id}: ${text}`);
    }
  }

  /** checks every file byte for byte, and that every file has its own inode number and keeps it */
  async #verifyFiles(sessionId: string): Promise<void> {
    const { name, files, seen } = this.#sandbox;
    const output = await this.#output(
      sessionId,
      // Node is below the home directory; no client writes there.
      `find . -path ./runtimes -prune -o -type f ! -name '*.new' -print | sort | xargs -r sha256sum
       echo --; ${lookCommand(".")}`,
    );
    const [digests = "", look = ""] = output.split("--\n");
    const there = new Map(digests.split("\n").map((line) => [line.slice(68), line.slice(0, 64)]));
    for (const [path, file] of files) {
      const content = there.get(path) ?? absent;
      if (file.possible && !file.possible.has(content))
        this.#violated(`has ${path} as ${content}, not ${[...file.possible].join(" or ")}`);
      file.possible = new Set([content]);
      file.heldBy = sessionId;
    }
    const now = parseLook(look);
    for (const paths of collisionsIn(now)) this.#known.violations.push(`files of ${name} share a number: ${paths}`);
    for (const change of changedNumbers(seen, now)) this.#violated(`has a file with another number: ${change}`);
    this.#sandbox.seen = now;
  }

  async #verifyCommand(command: KnownCommand): Promise<void> {
    const { sessionId, id, output, exitCode, hasEnded } = command;
    const isCut = command.isCut || (!hasEnded && this.#known.deadSessions.has(sessionId));
    const path = `/v2/sandboxes/sessions/${sessionId}/cmd/${id}`;
    const { json, text } = await this.#get(`${path}?wait=true`);
    const code = json?.command?.exitCode;
    if (code !== exitCode && !(isCut && code === 137))
      this.#violated(`has ${id}, which ended with ${code}, not ${exitCode}: ${text}`);
    const said = textOf((await this.#get(`${path}/logs`)).text);
    if (said !== output && !(isCut && output.startsWith(said)))
      this.#violated(`has ${id}, which said ${JSON.stringify(said)}, not ${JSON.stringify(output)}`);
  }

  async #output(sessionId: string, script: string): Promise<string> {
    const path = `/v2/sandboxes/sessions/${sessionId}/cmd`;
    const body = { command: "sh", args: ["-c", script], wait: true };
    const ran = await raw(this.#daemon, "POST", path, { body });
    const last = JSON.parse(ran.text.trim().split("\n").at(-1) ?? "{}");
    if (last.command?.exitCode !== 0) this.#violated(`cannot be looked at: ${ran.status} ${ran.text}`);
    return textOf((await this.#get(`${path}/${last.command?.id}/logs`)).text);
  }

  #get(path: string) {
    return raw(this.#daemon, "GET", path);
  }

  #violated(how: string): void {
    this.#known.violations.push(`${this.#sandbox.name}, ${how}`);
  }
}

/** the text of all lines of a command's log */
function textOf(log: string): string {
  const lines = log.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line).data).join("");
}
