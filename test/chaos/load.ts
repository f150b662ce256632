/**
 * Several clients that each use their own sandboxes, while faults happen. Each answer is noted in the knowledge; a call
 * without an answer may have taken effect or not.
 */

import { labelOf } from "../../src/core/model/sandbox-label.ts";
import { type RawAnswer, raw } from "../e2e/clients.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { eventually } from "../harness/harness.ts";
import { drawn, randomFrom } from "../harness/random.ts";
import { captured, digestOf, fileOf, Knowledge, type KnownSandbox } from "./knowledge.ts";

/** whether an error answer is right while a fault lasts */
export type Excuse = (answer: RawAnswer) => boolean;

interface Trouble {
  excuse: Excuse;
  /** time in ms of performance.now() */
  from: number;
  until: number;
}

export class Load {
  readonly #daemon: TestDaemon;
  readonly known = new Knowledge();
  /** number of calls by their result, to verify that there was a load */
  readonly counts = { acknowledged: 0, refused: 0, unknown: 0 };
  readonly #troubles: Trouble[] = [];
  /** resolves when calls may begin, and when their answers may be noted */
  #open: Promise<void> = Promise.resolve();
  #interruptions = 0;
  /** resolves when clients may begin a turn */
  #pause: Promise<void> = Promise.resolve();
  /** number of clients in the middle of a turn */
  #busy = 0;
  #isOver = false;

  constructor(daemon: TestDaemon) {
    this.#daemon = daemon;
  }

  /** works until stop() is called */
  async run(seed: number, clients: number): Promise<void> {
    await Promise.all(Array.from({ length: clients }, (_, number) => this.#client(number, randomFrom(seed + number))));
  }

  stop(): void {
    this.#isOver = true;
  }

  /** resolves when this many more calls were acknowledged */
  async worked(calls: number): Promise<void> {
    const wanted = this.counts.acknowledged + calls;
    await eventually(`${calls} calls are acknowledged`, () => this.counts.acknowledged >= wanted);
  }

  /** pauses calls and notes meanwhile; the answers of running calls do not count */
  async interrupted<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#open = promise;
    this.#interruptions++;
    try {
      return await work();
    } finally {
      resolve();
    }
  }

  /** waits until no client is in a turn, and pauses all meanwhile: the knowledge is complete then */
  async settled<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = promise;
    try {
      while (this.#busy > 0) await new Promise((wake) => setTimeout(wake, 5));
      return await work();
    } finally {
      resolve();
    }
  }

  /** allows such answers to all calls that overlap with the work */
  async excusing<T>(excuse: Excuse, work: () => Promise<T>): Promise<T> {
    const trouble: Trouble = { excuse, from: performance.now(), until: Number.POSITIVE_INFINITY };
    this.#troubles.push(trouble);
    try {
      return await work();
    } finally {
      trouble.until = performance.now();
    }
  }

  async #client(number: number, random: () => number): Promise<void> {
    const own: KnownSandbox[] = [];
    for (let turn = 0; !this.#isOver; turn++) {
      await this.#pause;
      this.#busy++;
      try {
        await this.#turn(own, `${number}-${turn}`, random);
      } finally {
        this.#busy--;
      }
    }
  }

  async #turn(own: KnownSandbox[], mark: string, random: () => number): Promise<void> {
    const there = own.filter(({ existence }) => existence !== "gone");
    const sandbox = there[Math.floor(random() * there.length)];
    if (!sandbox || there.length < 2 || (there.length < 3 && random() < 0.1)) {
      own.push(await this.#create(`chaos-${mark}`));
      return;
    }
    if (sandbox.existence === "unknown" && !(await this.#find(sandbox))) return;
    const file = `file-${Math.floor(random() * 3)}`;
    const exitCode = Math.floor(random() * 4);
    const act = drawn<() => Promise<void>>(random, [
      [6, () => this.#write(sandbox, file, `content ${mark}`)],
      [2, () => this.#write(sandbox, `bulk-${mark}`, `${mark}\n`.repeat(40_000))],
      [3, () => this.#link(sandbox, `links-${mark}`, mark)],
      [4, () => this.#read(sandbox, file)],
      [6, () => this.#command(sandbox, mark, exitCode)],
      [3, () => this.#background(sandbox, mark)],
      [2, () => this.#tag(sandbox, mark)],
      [3, () => this.#end(sandbox, "stop")],
      [1, () => this.#end(sandbox, "snapshot")],
      [3, () => this.#freeze(sandbox)],
      [1, () => this.#fork(sandbox, `chaos-fork-${mark}`)],
      [1, () => this.#delete(sandbox)],
    ]);
    await act();
  }

  async #create(name: string): Promise<KnownSandbox> {
    const sandbox = this.known.add(name);
    const answer = await this.#call("POST", "/v3/sandboxes", { name });
    if (answer?.status === 200) sandbox.existence = "there";
    return sandbox;
  }

  /** checks whether a sandbox of unknown state exists */
  async #find(sandbox: KnownSandbox): Promise<boolean> {
    const answer = await this.#call("GET", `/v2/sandboxes/${sandbox.name}`, undefined, [404]);
    if (answer?.status === 200) sandbox.existence = "there";
    if (answer?.status === 404) sandbox.existence = "gone";
    return answer?.status === 200;
  }

  /** the session to work in; undefined if there was no answer, or an excused one */
  async #session(sandbox: KnownSandbox): Promise<string | undefined> {
    const answer = await this.#call("GET", `/v2/sandboxes/${sandbox.name}?resume=true`);
    return answer?.status === 200 ? answer.json.session.id : undefined;
  }

  /** runs a script that exits with 0 on success; returns its session if it succeeded and nothing was lost meanwhile */
  async #done(sandbox: KnownSandbox, script: string, env: Record<string, string>): Promise<string | undefined> {
    const { losses } = this.known;
    const session = await this.#session(sandbox);
    if (session === undefined) return undefined;
    const body = { command: "sh", args: ["-c", script], env, wait: true };
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/cmd`, body);
    return lastLine(answer)?.command?.exitCode === 0 && this.known.losses === losses ? session : undefined;
  }

  async #write(sandbox: KnownSandbox, path: string, content: string): Promise<void> {
    const digest = digestOf(content);
    const file = fileOf(sandbox, path);
    file.possible?.add(digest);
    file.isDirty = true;
    // A long content does not fit into an argument.
    const [line = "", lines] = content.endsWith("\n")
      ? [content.slice(0, content.indexOf("\n")), 40_000]
      : [content, 0];
    const fill = lines === 0 ? `printf %s "$LINE"` : `yes "$LINE" | head -n ${lines}`;
    const script = `${fill} > ${path}.new && mv ${path}.new ${path}`;
    const session = await this.#done(sandbox, script, { LINE: line });
    if (session !== undefined) Object.assign(file, { possible: new Set([digest]), heldBy: session });
  }

  /** two names of one file, and a copy by a program that detects hard links by their inode number */
  async #link(sandbox: KnownSandbox, folder: string, mark: string): Promise<void> {
    const paths = ["one", "too", "copy/one", "copy/too"].map((name) => `${folder}/${name}`);
    const files = paths.map((path) => fileOf(sandbox, path));
    for (const file of files) {
      file.possible?.add(digestOf(mark)).add(digestOf(""));
      file.isDirty = true;
    }
    const script = `mkdir -p ${folder}/copy && cd ${folder} && printf %s "$MARK" > one && ln -f one too && tar c one too | tar x -C copy`;
    const session = await this.#done(sandbox, script, { MARK: mark });
    if (session === undefined) return;
    for (const file of files) Object.assign(file, { possible: new Set([digestOf(mark)]), heldBy: session });
  }

  async #read(sandbox: KnownSandbox, path: string): Promise<void> {
    const session = await this.#session(sandbox);
    if (session === undefined) return;
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/fs/read`, { path }, [404]);
    const known = sandbox.files.get(path);
    if (answer?.status === 200 && known?.possible && !known.possible.has(digestOf(answer.text)))
      this.known.violations.push(`${path} of ${sandbox.name} is read as ${answer.text}`);
  }

  async #command(sandbox: KnownSandbox, mark: string, exitCode: number): Promise<void> {
    const sessionId = await this.#session(sandbox);
    if (sessionId === undefined) return;
    const output = `said ${mark} €\n`;
    const args = ["-c", `printf %s "$SAID"; exit ${exitCode}`];
    const body = { command: "sh", args, env: { SAID: output }, wait: true, logs: true };
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${sessionId}/cmd`, body);
    const last = lastLine(answer)?.command;
    if (!last) return;
    sandbox.commands.push({
      sessionId,
      id: last.id,
      output,
      exitCode,
      isCut: false,
      hasEnded: true,
      notedAt: performance.now(),
    });
    if (last.exitCode !== exitCode)
      this.known.violations.push(`${last.id} ended with ${last.exitCode}, not ${exitCode}`);
  }

  async #background(sandbox: KnownSandbox, mark: string): Promise<void> {
    const sessionId = await this.#session(sandbox);
    if (sessionId === undefined) return;
    const script = `for n in 1 2 3 4 5 6 7 8 9 10; do echo ${mark} $n; sleep 0.03; done; exit 7`;
    const body = { command: "sh", args: ["-c", script] };
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${sessionId}/cmd`, body);
    if (answer?.status !== 200) return;
    const output = Array.from({ length: 10 }, (_, n) => `${mark} ${n + 1}\n`).join("");
    const { id } = answer.json.command;
    sandbox.commands.push({
      sessionId,
      id,
      output,
      exitCode: 7,
      isCut: false,
      hasEnded: false,
      notedAt: performance.now(),
    });
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
    for (const command of sandbox.commands) if (!command.hasEnded) command.isCut = true;
    const answer = await this.#call("POST", `/v2/sandboxes/sessions/${session}/${how}`);
    if (!answer || answer.status >= 300) return;
    if (!answer.json.snapshot) this.known.violations.push(`${how} of ${sandbox.name} kept nothing`);
    else sandbox.snapshots.push(answer.json.snapshot.id);
    captured(sandbox, session);
  }

  /** pauses it; its commands go on in the next turn that uses it */
  async #freeze(sandbox: KnownSandbox): Promise<void> {
    const session = await this.#session(sandbox);
    if (session === undefined) return;
    const vm = await this.#call("GET", `/v1/vms/${session}`);
    if (vm?.status !== 200) return;
    const answer = await this.#call("POST", `/sandboxes/${labelOf(vm.json.session_id)}/pause`, {});
    if (answer?.status === 204) captured(sandbox, session);
  }

  async #fork(sandbox: KnownSandbox, name: string): Promise<void> {
    const forked = this.known.add(name);
    for (const tags of sandbox.tags) forked.tags.add(tags);
    const answer = await this.#call("POST", `/v2/sandboxes/${sandbox.name}/fork`, { name, persistent: false });
    if (answer?.status === 200) forked.existence = "there";
    await this.#delete(forked);
  }

  async #delete(sandbox: KnownSandbox): Promise<void> {
    sandbox.existence = "unknown";
    const answer = await this.#call("DELETE", `/v2/sandboxes/${sandbox.name}`, undefined, [404]);
    if (answer?.status === 200 || answer?.status === 404) sandbox.existence = "gone";
  }

  /** undefined if no answer came; one that is neither a success nor expected nor excused is a violation */
  async #call(
    method: string,
    path: string,
    body?: unknown,
    expected: readonly number[] = [],
  ): Promise<RawAnswer | undefined> {
    await this.#open;
    const from = performance.now();
    const interruptions = this.#interruptions;
    const given = await raw(this.#daemon, method, path, body === undefined ? {} : { body }).catch(() => undefined);
    const until = performance.now();
    await this.#open;
    const answer = this.#interruptions === interruptions ? given : undefined;
    this.counts[answer === undefined ? "unknown" : answer.status < 300 ? "acknowledged" : "refused"]++;
    if (!answer || answer.status < 300 || expected.includes(answer.status)) return answer;
    const isExcused = this.#troubles.some((one) => one.from < until && from < one.until && one.excuse(answer));
    if (!isExcused) this.known.violations.push(`${method} ${path} was answered ${answer.status}: ${answer.text}`);
    return answer;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: any JSON value of the daemon
function lastLine(answer: RawAnswer | undefined): any {
  const line = answer?.status === 200 ? answer.text.trim().split("\n").at(-1) : undefined;
  return line === undefined ? undefined : JSON.parse(line);
}
