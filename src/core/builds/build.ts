/**
 * One build: walks the stages of a plan. Each step that changes files boots a sandbox from the result of the step
 * before, works inside it, and stores a snapshot under the step's key. If the store already has that key, nothing runs.
 * These sandboxes belong to no project, appear in no list, and are deleted when their step ends.
 */

import { unlessAborted } from "../../base/concurrency/waits.ts";
import { shellLine } from "../commands/login-shell.ts";
import { type Context, memoryPerVcpu } from "../context.ts";
import { showName } from "../images/shown-name.ts";
import { beginTrust, trustEnvironment, trusted } from "../images/trust.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../model/errors.ts";
import { type StartCommand, userOf } from "../model/image.ts";
import { allowsNothing, hasRules, type NetworkPolicy } from "../network/network-policy.ts";
import type { BuildContext } from "../ports/image-builds.ts";
import type { ExecSpec, Machine, MachineNetwork, OutputChunk, Process } from "../ports/runtime.ts";
import { type RunLine, startCommand } from "../sessions/start-command.ts";
import {
  type BuildPlan,
  type BuildStage,
  type BuildStep,
  type CopyAction,
  type ImageSettings,
  isSent,
  neededStages,
  type RunAction,
  type StageBase,
} from "./build-plan.ts";
import {
  type CopyFiles,
  contextFiles,
  copyInto,
  copySteps,
  type Match,
  machineFiles,
  matchesOf,
  ownerIds,
} from "./copying.ts";
import { buildMachineId } from "./machine-ids.ts";
import { baseKey, stepKey } from "./step-keys.ts";

/** What a build reports to its caller. */
export type BuildEvent =
  | { type: "note"; message: string }
  /** how much of an image that the build begins with has arrived, in bytes: at the first byte and at each tenth */
  | { type: "pulling"; image: string; received: number; total: number }
  /** `index` counts from 1 */
  | { type: "step"; stage: string; index: number; total: number; text: string; line?: number | undefined }
  | { type: "output"; stream: "stdout" | "stderr"; text: string }
  | { type: "cached" }
  /** the steps are done; the start command of the image is tried */
  | { type: "start"; text: string }
  /** duration in ms */
  | { type: "done"; took: number };

/** The files that a step begins with or leaves behind. */
interface Root {
  /** the key of the image to boot from */
  image: string;
  key: string;
}

export interface BuildJob {
  context: Context;
  teamId: string;
  plan: BuildPlan;
  files: BuildContext | undefined;
  /** opens files that the team sent before; the build closes them */
  upload: (name: string) => Promise<BuildContext>;
  /** the images that the plan names, by name: the image to boot and the digest of its content */
  images: ReadonlyMap<string, { image: string; digest: string }>;
  network: NetworkPolicy;
  useCache: boolean;
  /** the steps that builds are making, by their keys; a key includes the team */
  underWay: Map<string, Promise<void>>;
  vcpus: number;
  /** memory of the image's sandboxes, in MiB; steps may have more */
  memory: number;
  /** when the build must have finished */
  deadline: number;
  signal: AbortSignal;
  tell: (event: BuildEvent) => Promise<void>;
}

/** most bytes of a command's output that wait to be reported */
const outputLimit = 16 << 20;
/** how long a start command without a ready command must not fail, in ms */
const settling = 5000;
/** characters of a failed command's output that the error message repeats */
const lastOutput = 2000;

export class Build {
  readonly #job: BuildJob;
  readonly #results = new Map<number, Root>();
  readonly #total: number;
  readonly #copySteps = copySteps();
  /** files of the last step that copied some; those of others are closed, because they take memory and disk */
  #upload: { name: string; files: BuildContext } | undefined;
  /** whether a step was forced, so that the rest runs too */
  #forced = false;
  #index = 0;

  constructor(job: BuildJob) {
    this.#job = job;
    const { stages } = job.plan;
    this.#total = neededStages(job.plan).reduce((sum, index) => sum + (stages[index]?.steps.length ?? 0), 0);
  }

  /** returns the key of the image with the target's files */
  async run(): Promise<string> {
    try {
      return await this.#run();
    } finally {
      await this.#closeUpload();
    }
  }

  async #run(): Promise<string> {
    const { plan, tell } = this.#job;
    for (const message of plan.notes) await tell({ type: "note", message });
    for (const index of neededStages(plan)) {
      const stage = plan.stages[index];
      if (stage) this.#results.set(index, await this.#stage(stage));
    }
    const result = this.#results.get(plan.target);
    if (!result) throw new SandkeepError("internal", "Cannot build the image: its stage was not built");
    const { settings } = plan.stages[plan.target] ?? {};
    if (settings?.start) await this.#tryStart(result, settings, settings.start);
    return result.image;
  }

  async #stage(stage: BuildStage): Promise<Root> {
    const { tell, context } = this.#job;
    let root = await this.#rootOf(stage.base);
    for (const step of stage.steps) {
      this.#requireTime();
      const { text, line } = step;
      this.#forced ||= step.force ?? false;
      await tell({ type: "step", stage: stage.name, index: ++this.#index, total: this.#total, text, line });
      const begin = context.now();
      try {
        root = await this.#step(root, step);
      } catch (error) {
        throw this.#failed(step, error);
      }
      await tell({ type: "done", took: Math.max(0, context.now() - begin) });
    }
    return root;
  }

  async #rootOf(base: StageBase): Promise<Root> {
    const { context, teamId, images } = this.#job;
    if (base === "scratch") {
      return { image: await context.runtime.imageBuilds.scratch(), key: baseKey(teamId, "scratch") };
    }
    const found = "stage" in base ? this.#results.get(base.stage) : undefined;
    if (found) return found;
    const image = "image" in base ? images.get(base.image) : undefined;
    if (!image) throw new SandkeepError("internal", "Cannot build the image: a stage has no base");
    return { image: image.image, key: baseKey(teamId, image) };
  }

  async #step(parent: Root, { action }: BuildStep): Promise<Root> {
    if (action.kind === "setting") return parent;
    const { network } = this.#job;
    if (action.kind === "copy") return this.#copy(parent, action);
    const key = stepKey({ parent: parent.key, action, network });
    return this.#cachedOr(key, () =>
      this.#inside(parent, key, async (machine) => {
        if (action.kind === "run") return this.#execute(machine, action);
        const inside = machine.files();
        if (action.shows) await showName(inside, action.user);
        const isThere = await inside.stat(action.path).then(
          ({ type }) => type === "directory",
          () => false,
        );
        if (isThere) return;
        await inside.mkdir(action.path, { recursive: true });
        const { uid, gid } = await ownerIds(machine, action.user);
        if (uid !== 0 || gid !== 0) await inside.chown(action.path, uid, gid);
      }),
    );
  }

  /** reads the sources before the cache, because their contents are part of the key */
  async #copy(parent: Root, action: CopyAction): Promise<Root> {
    const { network } = this.#job;
    const write = (key: string, files: CopyFiles | undefined, matches: Match[]) =>
      this.#inside(parent, key, (machine) => copyInto(machine, action, { files, matches }));
    if (!isSent(action.from)) {
      const source = await this.#rootOf(action.from);
      const key = stepKey({ parent: parent.key, action, network, copied: [source.key] });
      return this.#cachedOr(key, () =>
        this.#booted(source, "copy", async (machine) => {
          const files = machineFiles(machine.files());
          const matches = await this.#matches(files, action);
          return write(key, files, matches);
        }),
      );
    }
    const sent = action.from === "context" ? this.#job.files : await this.#sent(action.from.upload);
    if (action.sources.length > 0 && !sent) throw new SandkeepError("invalid", "the build has no files to copy from");
    // A client that sent files for one step has followed links there, or wants them.
    const files = sent && contextFiles(sent, { keepsLinks: action.from !== "context" });
    const matches = files ? await this.#matches(files, action) : [];
    const copied = matches.flatMap(({ path, name }) => [name, sent?.digest(path.slice(1)) ?? ""]);
    const key = stepKey({ parent: parent.key, action, network, copied });
    return this.#cachedOr(key, () => write(key, files, matches));
  }

  async #sent(name: string): Promise<BuildContext> {
    if (this.#upload?.name !== name) {
      await this.#closeUpload();
      this.#upload = { name, files: await this.#job.upload(name) };
    }
    return this.#upload.files;
  }

  async #closeUpload(): Promise<void> {
    await this.#upload?.files.close().catch(this.#job.context.logError);
    this.#upload = undefined;
  }

  async #matches(files: CopyFiles, { sources }: CopyAction): Promise<Match[]> {
    return (await Promise.all(sources.map((each) => matchesOf(files, each, this.#copySteps)))).flat();
  }

  /** a step that another build is making right now is waited for, and made here only if it fails there */
  async #cachedOr(key: string, make: () => Promise<Root>): Promise<Root> {
    const { context, useCache, tell, underWay, signal } = this.#job;
    if (!useCache || this.#forced) return make();
    for (let other = underWay.get(key); other; other = underWay.get(key)) {
      await unlessAborted(other, signal);
      this.#requireTime();
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    underWay.set(key, promise);
    try {
      const image = await context.runtime.imageBuilds.find(key);
      if (image === undefined) return await make();
      await tell({ type: "cached" });
      return { image, key };
    } finally {
      underWay.delete(key);
      resolve();
    }
  }

  /** boots from the parent, changes its files, and stores the result under the key */
  #inside(parent: Root, key: string, change: (machine: Machine) => Promise<void>): Promise<Root> {
    const { runtime } = this.#job.context;
    return this.#booted(parent, "step", async (machine) => {
      await change(machine);
      this.#requireTime();
      const { snapshot, reason } = await machine.stop({ snapshot: true });
      if (!snapshot) throw new SandkeepError("internal", `its files could not be kept: ${reason}`);
      return { image: await runtime.imageBuilds.keep(key, snapshot.id), key };
    });
  }

  /** boots a machine for the work and deletes it afterwards; a cancelled build stops it at once */
  async #booted<T>(root: Root, purpose: "step" | "copy" | "start", work: (machine: Machine) => Promise<T>): Promise<T> {
    const { context, vcpus, memory, signal, network: policy } = this.#job;
    const { runtime, ids, limits, logError } = context;
    this.#requireTime();
    const network = machineNetwork(policy);
    const id = buildMachineId(purpose, ids.command().slice(4));
    const most = purpose === "start" ? memory : Math.max(memory, vcpus * memoryPerVcpu);
    const size = { vcpus, memory: most * 2 ** 20, disk: limits.disk };
    const machine = await runtime.boot({ id, root: { image: root.image }, limits: size, network });
    const end = () => void machine.stop().catch(logError);
    signal.addEventListener("abort", end, { once: true });
    try {
      signal.throwIfAborted();
      return await work(machine);
    } finally {
      signal.removeEventListener("abort", end);
      await machine.stop().catch((error) => {
        if (!isSandkeepError(error, "gone")) logError(error);
      });
      await runtime.forget(id).catch(logError);
    }
  }

  /** starts a machine as sandboxes of the image will start, so that a failure is found now; drops what changed in it */
  async #tryStart(root: Root, { env, user, cwd }: ImageSettings, start: StartCommand): Promise<void> {
    const { context, tell, signal } = this.#job;
    await tell({ type: "start", text: start.command ?? start.ready ?? "" });
    await this.#booted(root, "start", async (machine) => {
      const { now, ids } = context;
      await this.#prepare(machine);
      const run: RunLine = (line, limits) =>
        this.#program(machine, {
          id: ids.command(),
          argv: shellLine(line),
          env,
          user: userOf({ user }),
          cwd,
          ...limits,
        });
      const output = new Output(tell);
      const read = async (chunks: AsyncIterable<OutputChunk>) => {
        for await (const chunk of chunks) await output.take(chunk);
        await output.end();
      };
      await startCommand(start, { run, now, settles: settling, read });
    }).catch((error: unknown) => {
      if (signal.aborted) throw signal.reason ?? error;
      throw error;
    });
  }

  /** only programs need the certificates; copying files does not */
  async #prepare(machine: Machine): Promise<void> {
    const { context, network } = this.#job;
    beginTrust(machine, machineNetwork(network), context, { rooted: !context.hostRoots });
    await trusted(machine);
  }

  #program(machine: Machine, { cwd, env = {}, ...program }: ExecSpec): Promise<Process> {
    const { context, network } = this.#job;
    return machine.exec({ ...program, cwd: cwd || "/", env: { ...trustEnvironment(network, context), ...env } });
  }

  async #execute(machine: Machine, { argv, env, user, cwd }: RunAction): Promise<void> {
    const { context, deadline, signal } = this.#job;
    await this.#prepare(machine);
    const timeLimit = Math.max(1, deadline - context.now());
    const process = await this.#program(machine, { id: "run", argv, cwd, env, user, timeLimit, outputLimit });
    const output = new Output(this.#job.tell);
    for await (const chunk of process.output({ signal })) await output.take(chunk);
    const exit = await process.exited;
    await output.end();
    signal.throwIfAborted();
    if (exit.code === 0 && !exit.timedOut) return;
    const why = exit.timedOut
      ? "it took longer than the build may"
      : exit.outOfMemory
        ? "it was out of memory"
        : `it ended with exit code ${exit.code}`;
    const code = exit.timedOut ? "timeout" : exit.outOfMemory ? "limit" : "invalid";
    throw new SandkeepError(code, output.last === "" ? why : `${why}. It said last:\n${output.last}`);
  }

  #requireTime(): void {
    const { signal, deadline, context } = this.#job;
    signal.throwIfAborted();
    if (context.now() < deadline) return;
    throw new SandkeepError("timeout", "Cannot build the image: it exceeded its time limit");
  }

  /** the same error, with the failed step in its message */
  #failed({ text, line }: BuildStep, error: unknown): unknown {
    const { signal } = this.#job;
    if (signal.aborted) return signal.reason ?? error;
    if (!isSandkeepError(error) || error.code === "internal") return error;
    const where = `${line === undefined ? "" : `line ${line}: `}${text.length > 200 ? `${text.slice(0, 200)}…` : text}`;
    const isShell = error.about?.kind === "executable";
    const why = isShell ? `${messageOf(error)} (the image lacks the program that should run it)` : messageOf(error);
    return new SandkeepError(error.code, `Cannot build the image: ${where}: ${why}`, { cause: error });
  }
}

/** policies with rules are refused: rules need a sandbox in the database */
export function machineNetwork(policy: NetworkPolicy): MachineNetwork {
  if (policy.mode === "allow-all") return "allow-all";
  if (policy.mode === "deny-all" || allowsNothing(policy)) return "deny-all";
  if (hasRules(policy))
    throw new SandkeepError("invalid", "Cannot build the image: its network policy has rules for requests");
  return policy;
}

/** Decodes a command's output as text, and keeps the end of it. */
class Output {
  readonly #tell: BuildJob["tell"];
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  last = "";

  constructor(tell: BuildJob["tell"]) {
    this.#tell = tell;
  }

  async take({ stream, data }: OutputChunk): Promise<void> {
    const name = stream === "stderr" ? "stderr" : "stdout";
    await this.#say(name, this.#decoders[name].decode(data, { stream: true }));
  }

  async end(): Promise<void> {
    for (const name of ["stdout", "stderr"] as const) await this.#say(name, this.#decoders[name].decode());
    this.last = this.last.trim();
  }

  async #say(stream: "stdout" | "stderr", text: string): Promise<void> {
    if (text === "") return;
    this.last = (this.last + text).slice(-lastOutput);
    await this.#tell({ type: "output", stream, text });
  }
}
