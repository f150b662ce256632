/**
 * A mixed load on a daemon that is killed again and again, and a memory of what was acknowledged. Every answer is
 * written down; a call whose answer never came may have happened or not, and both are right. What was acknowledged must
 * be there in the end.
 */

import { setTimeout as pause } from "node:timers/promises";
import type { TestDaemon } from "../daemon.ts";
import { type RawAnswer, raw } from "./clients.ts";

/** a sequence of numbers from 0 to 1 that a seed decides (mulberry32) */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What is known of a sandbox. */
export interface KnownSandbox {
  name: string;
  existence: "there" | "gone" | "unknown";
  /** what each file may hold: one thing once that was acknowledged, several while nobody knows */
  files: Map<string, Set<string>>;
  tags: Set<string>;
  commands: KnownCommand[];
  snapshots: string[];
}

export interface KnownCommand {
  sessionId: string;
  id: string;
  output: string;
  exitCode: number;
  /** whether its session may have ended before it had */
  cut: boolean;
  /** whether its end was acknowledged */
  ended: boolean;
}

export class Load {
  readonly #daemon: TestDaemon;
  readonly sandboxes: KnownSandbox[] = [];
  /** what must never happen, as it happened */
  readonly violations: string[] = [];
  /** calls by how they ended, to see that the load was one */
  readonly counts = { acknowledged: 0, refused: 0, unknown: 0 };
  #up: Promise<void> = Promise.resolve();
  #stopping = false;

  constructor(daemon: TestDaemon) {
    this.#daemon = daemon;
  }

  /** works until it is told to stop, as several clients who each have sandboxes of their own */
  async run(seed: number, clients: number): Promise<void> {
    await Promise.all(Array.from({ length: clients }, (_, number) => this.#client(number, randomFrom(seed + number))));
  }

  stop(): void {
    this.#stopping = true;
  }

  /** kills the daemon and starts it again; clients wait until it is there */
  async killOnce(downFor: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#up = promise;
    await this.#daemon.kill9();
    await pause(downFor);
    await this.#daemon.start();
    resolve();
  }

  async #client(number: number, random: () => number): Promise<void> {
    const own: KnownSandbox[] = [];
    for (let turn = 0; !this.#stopping; turn++) {
      await this.#up;
      const there = own.filter(({ existence }) => existence !== "gone");
      const sandbox = there[Math.floor(random() * there.length)];
      if (!sandbox || there.length < 2 || (there.length < 5 && random() < 0.1)) {
        own.push(await this.#create(`chaos-${number}-${turn}`));
        continue;
      }
      if (sandbox.existence === "unknown" && !(await this.#find(sandbox))) continue;
      await this.#turn(sandbox, `${number}-${turn}`, random);
    }
  }

  /** does one thing, each as likely as it has shares */
  async #turn(sandbox: KnownSandbox, mark: string, random: () => number): Promise<void> {
    const things: [shares: number, act: () => Promise<void>][] = [
      [6, () => this.#write(sandbox, `file-${Math.floor(random() * 3)}`, `content ${mark}`)],
      [4, () => this.#read(sandbox, `file-${Math.floor(random() * 3)}`)],
      [6, () => this.#command(sandbox, mark, Math.floor(random() * 4))],
      [3, () => this.#background(sandbox, mark)],
      [2, () => this.#tag(sandbox, mark)],
      [3, () => this.#end(sandbox, "stop")],
      [1, () => this.#end(sandbox, "snapshot")],
      [1, () => this.#fork(sandbox, `chaos-fork-${mark}`)],
      [1, () => this.#delete(sandbox)],
    ];
    let at = random() * things.reduce((sum, [shares]) => sum + shares, 0);
    for (const [shares, act] of things) {
      at -= shares;
      if (at < 0) return act();
    }
  }

  async #create(name: string): Promise<KnownSandbox> {
    const sandbox: KnownSandbox = {
      name,
      existence: "unknown",
      files: new Map(),
      tags: new Set(["{}"]),
      commands: [],
      snapshots: [],
    };
    this.sandboxes.push(sandbox);
    const answer = await this.#call("POST", "/v3/sandboxes", { name });
    if (answer?.status === 200) sandbox.existence = "there";
    else if (answer) this.violations.push(`create ${name} was answered ${answer.status}: ${answer.text}`);
    return sandbox;
  }

  /** finds out about one of which nobody knows whether it is there */
  async #find(sandbox: KnownSandbox): Promise<boolean> {
    const answer = await this.#call("GET", `/v2/sandboxes/${sandbox.name}`);
    if (answer?.status === 200) sandbox.existence = "there";
    if (answer?.status === 404) sandbox.existence = "gone";
    return answer?.status === 200;
  }

  /** the session to work in; undefined when that was not to be known */
  async #session(sandbox: KnownSandbox): Promise<string | undefined> {
    const answer = await this.#call("GET", `/v2/sandboxes/${sandbox.name}?resume=true`);
    if (!answer) return undefined;
    if (answer.status === 200) return answer.json.session.id;
    // A sandbox that was never captured and died with its boot can only be deleted; ours are captured at each stop.
    this.violations.push(`resume ${sandbox.name} was answered ${answer.status}: ${answer.text}`);
    return undefined;
  }

  async #write(sandbox: KnownSandbox, path: string, content: string): Promise<void> {
    const session = await this.#session(sandbox);
    if (session === undefined) return;
    const possible = sandbox.files.get(path) ?? new Set([""]);
    sandbox.files.set(path, new Set([...possible, content]));
    const script = `printf %s "$CONTENT" > ${path}.new && mv ${path}.new ${path}`;
    const body = { command: "sh", args: ["-c", script], env: { CONTENT: content }, wait: true };
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/cmd`, body);
    if (lastLine(answer)?.command?.exitCode === 0) sandbox.files.set(path, new Set([content]));
  }

  async #read(sandbox: KnownSandbox, path: string): Promise<void> {
    const session = await this.#session(sandbox);
    if (session === undefined) return;
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/fs/read`, { path });
    if (answer) this.#expectFile(sandbox, path, answer);
  }

  #expectFile(sandbox: KnownSandbox, path: string, answer: RawAnswer): void {
    const possible = sandbox.files.get(path) ?? new Set([""]);
    const content = answer.status === 404 ? "" : answer.text;
    if ((answer.status === 200 || answer.status === 404) && possible.has(content)) return;
    this.violations.push(
      `${path} of ${sandbox.name} is ${answer.status} ${content}, not ${[...possible].join(" or ")}`,
    );
  }

  async #command(sandbox: KnownSandbox, mark: string, exitCode: number): Promise<void> {
    const sessionId = await this.#session(sandbox);
    if (sessionId === undefined) return;
    const output = `said ${mark} €\n`;
    const body = {
      command: "sh",
      args: ["-c", `printf %s "$SAID"; exit ${exitCode}`],
      env: { SAID: output },
      wait: true,
      logs: true,
    };
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${sessionId}/cmd`, body);
    const last = lastLine(answer)?.command;
    if (!last) return;
    sandbox.commands.push({ sessionId, id: last.id, output, exitCode, cut: false, ended: true });
    if (last.exitCode !== exitCode) this.violations.push(`${last.id} ended with ${last.exitCode}, not ${exitCode}`);
  }

  async #background(sandbox: KnownSandbox, mark: string): Promise<void> {
    const sessionId = await this.#session(sandbox);
    if (sessionId === undefined) return;
    const script = `for n in 1 2 3 4 5 6 7 8 9 10; do echo ${mark} $n; sleep 0.03; done; exit 7`;
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${sessionId}/cmd`, {
      command: "sh",
      args: ["-c", script],
    });
    if (answer?.status !== 200) return;
    const output = Array.from({ length: 10 }, (_, n) => `${mark} ${n + 1}\n`).join("");
    sandbox.commands.push({ sessionId, id: answer.json.command.id, output, exitCode: 7, cut: false, ended: false });
  }

  async #tag(sandbox: KnownSandbox, mark: string): Promise<void> {
    const tags = { mark };
    sandbox.tags.add(JSON.stringify(tags));
    const answer = await this.#call("PATCH", `/v2/sandboxes/${sandbox.name}`, { tags });
    if (answer?.status === 200) sandbox.tags = new Set([JSON.stringify(tags)]);
  }

  async #end(sandbox: KnownSandbox, how: "stop" | "snapshot"): Promise<void> {
    const session = await this.#session(sandbox);
    if (session === undefined) return;
    for (const command of sandbox.commands.filter(({ ended }) => !ended)) command.cut = true;
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/${how}`);
    const snapshot = answer && answer.status < 300 ? answer.json.snapshot : undefined;
    if (snapshot) sandbox.snapshots.push(snapshot.id);
    else if (answer && answer.status < 300) this.violations.push(`${how} of ${sandbox.name} kept nothing`);
  }

  async #fork(sandbox: KnownSandbox, name: string): Promise<void> {
    const answer = await this.#call("POST", `/v2/sandboxes/${sandbox.name}/fork`, { name, persistent: false });
    if (answer && answer.status !== 200)
      this.violations.push(`fork of ${sandbox.name} was answered ${answer.status}: ${answer.text}`);
    const forked: KnownSandbox = {
      name,
      existence: answer ? "there" : "unknown",
      files: new Map(),
      tags: sandbox.tags,
      commands: [],
      snapshots: [],
    };
    await this.#delete(forked);
    this.sandboxes.push(forked);
  }

  async #delete(sandbox: KnownSandbox): Promise<void> {
    sandbox.existence = "unknown";
    const answer = await this.#call("DELETE", `/v2/sandboxes/${sandbox.name}`);
    if (answer?.status === 200 || answer?.status === 404) sandbox.existence = "gone";
  }

  /** undefined when nobody knows what became of it */
  async #call(method: string, path: string, body?: unknown): Promise<RawAnswer | undefined> {
    await this.#up;
    try {
      const answer = await raw(this.#daemon, method, path, body === undefined ? {} : { body });
      if (answer.status >= 500) this.violations.push(`${method} ${path} was answered ${answer.status}: ${answer.text}`);
      this.counts[answer.status < 300 ? "acknowledged" : "refused"]++;
      return answer;
    } catch {
      this.counts.unknown++;
      return undefined;
    }
  }

  /** looks at everything that was acknowledged; what is not as it was is a violation */
  async verify(): Promise<void> {
    await Promise.all(this.sandboxes.map((sandbox) => this.#verifySandbox(sandbox)));
  }

  async #verifySandbox(sandbox: KnownSandbox): Promise<void> {
    const found = await raw(this.#daemon, "GET", `/v2/sandboxes/${sandbox.name}?resume=true`);
    if (found.status === 404 && sandbox.existence !== "there") return;
    if (found.status !== 200 || sandbox.existence === "gone") {
      this.violations.push(
        `${sandbox.name}, which is ${sandbox.existence}, is answered ${found.status}: ${found.text}`,
      );
      return;
    }
    const tags = JSON.stringify(found.json.sandbox.tags ?? {});
    if (!sandbox.tags.has(tags))
      this.violations.push(`${sandbox.name} has the tags ${tags}, not ${[...sandbox.tags].join(" or ")}`);
    for (const path of sandbox.files.keys()) {
      const session = `/v2/sandboxes/sessions/${found.json.session.id}`;
      this.#expectFile(sandbox, path, await raw(this.#daemon, "POST", `${session}/fs/read`, { body: { path } }));
    }
    for (const command of sandbox.commands) await this.#verifyCommand(command);
    for (const id of sandbox.snapshots) {
      const { json, text } = await raw(this.#daemon, "GET", `/v2/sandboxes/snapshots/${id}`);
      if (json.snapshot?.status !== "created") this.violations.push(`snapshot ${id} of ${sandbox.name} is ${text}`);
    }
  }

  async #verifyCommand({ sessionId, id, output, exitCode, cut }: KnownCommand): Promise<void> {
    const path = `/v2/sandboxes/sessions/${sessionId}/cmd/${id}`;
    const { json, text } = await raw(this.#daemon, "GET", `${path}?wait=true`);
    const code = json?.command?.exitCode;
    if (code !== exitCode && !(cut && code === 137))
      this.violations.push(`${id} ended with ${code}, not ${exitCode}: ${text}`);
    const logs = await raw(this.#daemon, "GET", `${path}/logs`);
    const lines = logs.text.split("\n").filter((line) => line !== "");
    const said = lines.map((line) => JSON.parse(line).data).join("");
    if (said !== output && !(cut && output.startsWith(said))) {
      this.violations.push(`${id} said ${JSON.stringify(said)}, not ${JSON.stringify(output)}`);
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the daemon said last
function lastLine(answer: RawAnswer | undefined): any {
  const line = answer?.status === 200 ? answer.text.trim().split("\n").at(-1) : undefined;
  return line === undefined ? undefined : JSON.parse(line);
}
