/**
 * Runs the builds of templates in the background: writes what they report to their logs, and their outcome to the
 * store. A build goes on when its caller has gone, and ends with the daemon.
 */

import { Retries } from "../../base/concurrency/retries.ts";
import type { BuildProgress, BuildSpec, Builds } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import { isSandkeepError, messageOf } from "../model/errors.ts";
import { imageKey } from "../model/image.ts";
import type { Owner } from "../model/sandbox.ts";
import { type LogLevel, type TemplateBuild, type TemplateLogLine, templateImage } from "../model/template.ts";

/** What a template's build does. */
export interface Recipe extends Pick<BuildSpec, "images" | "plan" | "useCache" | "networkPolicy"> {
  /** steps of the plan that precede those of the caller */
  prelude: number;
}

/** lines of a build's log that are kept, characters of each and of all */
const mostLines = 20_000;
const longestLine = 4000;
const longestLog = 2 << 20;
const logIsFull = "The log is full: the rest of the output is not kept";
const interrupted = "The daemon was stopped while it built; build again";

export class TemplateRuns {
  readonly #context: Context;
  readonly #builds: Builds;
  readonly #running = new Set<Promise<void>>();
  /** outcomes that could not be stored yet, by build */
  readonly #retries: Retries;

  constructor(context: Context, builds: Builds) {
    this.#context = context;
    this.#builds = builds;
    this.#retries = new Retries((error) => context.logError(error));
  }

  /** builds that an earlier daemon left unfinished have failed */
  async open(): Promise<void> {
    for (const build of await this.#context.store.templateBuildsIn(["building"])) {
      await this.#failed(build, { message: interrupted });
    }
  }

  /** resolves when no build is left; call after the builds were closed */
  async close(): Promise<void> {
    await Promise.all(this.#running);
    this.#retries.close();
  }

  /** resolves when the build is over, whatever its outcome */
  start(owner: Owner, build: TemplateBuild, recipe: Recipe): Promise<void> {
    const working = this.#run(owner, build, recipe).catch((error) => this.#context.logError(error));
    this.#running.add(working);
    void working.then(() => this.#running.delete(working));
    return working;
  }

  async #run(owner: Owner, build: TemplateBuild, { prelude, ...spec }: Recipe): Promise<void> {
    const log = new Log(this.#context, build.id, prelude);
    // The end of the caller's key ends only what the key asks for from then on.
    const { ended: _, ...lasting } = owner;
    try {
      const name = templateImage(build);
      const size = { vcpus: build.vcpus, memory: build.memory };
      for await (const event of await this.#builds.build(lasting, { ...spec, name, ...size })) {
        await log.take(event);
      }
      await log.end();
      await this.#store(build, () => this.#ready(build));
    } catch (error) {
      const known = isSandkeepError(error) && error.code !== "internal";
      if (!known) this.#context.logError(error);
      const message = known ? messageOf(error) : "Cannot build the image: an internal error occurred";
      await log.fail(message).catch(this.#context.logError);
      const reason = { message, ...(log.step === undefined ? { during: "start" as const } : { step: log.step }) };
      await this.#store(build, () => this.#failed(build, reason));
    }
  }

  /** stores an outcome; if the database is away, again and again until it is back: no build stays under way */
  async #store({ id }: TemplateBuild, outcome: () => Promise<void>): Promise<void> {
    await outcome().catch((error) => {
      if (!isSandkeepError(error, "unavailable")) throw error;
      this.#context.logError(error);
      this.#retries.again(id, outcome);
    });
  }

  /** the image exists: the build's tags name it from now on */
  async #ready(build: TemplateBuild): Promise<void> {
    const { store, now } = this.#context;
    const finished = await store.finishTemplateBuild(build.id, now());
    // The answer to an earlier attempt may have been lost.
    const isReady = finished !== undefined || (await store.getTemplateBuild(build.id))?.state === "ready";
    if (!isReady) return this.#drop(build);
    await this.forgetUnnamed(build.templateId).catch(this.#context.logError);
  }

  /** the daemon may have died, or the database may have been away, after the image was made */
  async #failed(build: TemplateBuild, reason: NonNullable<TemplateBuild["reason"]>): Promise<void> {
    const { store, now, logError } = this.#context;
    const at = now();
    await store.moveTemplateBuild(build.id, ["building"], "failed", { reason, updatedAt: at, finishedAt: at });
    if ((await store.getTemplateBuild(build.id))?.state === "failed") await this.#drop(build).catch(logError);
  }

  /** deletes the images of builds that no tag names, since no caller can ask for them any more */
  async forgetUnnamed(templateId: string): Promise<void> {
    const { store } = this.#context;
    // The tags are read last: a build that becomes ready gets its tags at the same moment.
    const builds = await store.templateBuilds(templateId, 1000);
    const named = new Set((await store.templateTags(templateId)).map(({ buildId }) => buildId));
    await this.#drop(...builds.filter(({ id, state }) => state === "ready" && !named.has(id)));
  }

  /** the template was deleted meanwhile, or nothing names its build */
  async #drop(...builds: TemplateBuild[]): Promise<void> {
    const { runtime } = this.#context;
    if (builds.length === 0) return;
    const names = new Set(builds.map(templateImage));
    const images = (await runtime.images.list()).filter(({ name }) => names.has(name));
    for (const image of images) if (image.owner !== undefined) await runtime.images.delete(imageKey(image));
  }
}

function pullLine({ image, received, total }: Extract<BuildProgress, { type: "pulling" }>): string {
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
  return `Pulling ${image}: ${megabytes(received)} of ${megabytes(total)} MB`;
}

/** Turns the events of a build into lines of its log. */
class Log {
  /** the step that runs, counted without the prelude; 0 is what precedes the steps, undefined what follows them */
  step: number | undefined = 0;
  readonly #context: Context;
  readonly #buildId: string;
  readonly #prelude: number;
  #number = 0;
  /** characters so far */
  #length = 0;
  /** the beginning of a line whose end was not printed yet, by stream */
  readonly #rest = { stdout: "", stderr: "" };

  constructor(context: Context, buildId: string, prelude: number) {
    this.#context = context;
    this.#buildId = buildId;
    this.#prelude = prelude;
  }

  async take(event: BuildProgress): Promise<void> {
    if (event.type === "output") return this.#output(event.stream, event.text);
    await this.#flush();
    if (event.type === "step") {
      this.step = Math.max(0, event.index - this.#prelude);
      const total = event.total - this.#prelude;
      await this.#add(this.step === 0 ? "debug" : "info", `[${this.step || "base"}/${total}] ${event.text}`);
    } else if (event.type === "start") {
      this.step = undefined;
      await this.#add("info", `[start] ${event.text}`);
    } else if (event.type === "note") await this.#add("warn", event.message);
    else if (event.type === "waiting") await this.#add("info", "Waiting for other builds to end");
    else if (event.type === "pulling") await this.#add("info", pullLine(event));
    else if (event.type === "cached") await this.#add("debug", "This step is cached");
    else if (event.type === "done") await this.#add("debug", `Done in ${event.took} ms`);
    else await this.#add("info", "The image is built");
  }

  async end(): Promise<void> {
    await this.#flush();
  }

  async fail(message: string): Promise<void> {
    await this.#flush();
    await this.#add("error", message);
  }

  async #output(stream: "stdout" | "stderr", text: string): Promise<void> {
    const lines = (this.#rest[stream] + text).split("\n");
    this.#rest[stream] = (lines.pop() ?? "").slice(-longestLine);
    await this.#add(stream === "stdout" ? "info" : "warn", ...lines);
  }

  async #flush(): Promise<void> {
    for (const stream of ["stdout", "stderr"] as const) {
      const rest = this.#rest[stream];
      this.#rest[stream] = "";
      if (rest !== "") await this.#add(stream === "stdout" ? "info" : "warn", rest);
    }
  }

  async #add(level: LogLevel, ...messages: string[]): Promise<void> {
    const { store, now } = this.#context;
    const at = now();
    const { step } = this;
    // The outcome is always in the log, whatever the build printed before.
    const kept = level === "error" ? messages : this.#fitting(messages);
    const lines = kept.map(
      (message): TemplateLogLine => ({
        at,
        level: message === logIsFull ? "warn" : level,
        message: message.slice(0, longestLine),
        ...(step !== undefined && { step }),
      }),
    );
    const write = () => store.addTemplateLog(this.#buildId, this.#number, lines);
    // A connection that broke leaves unknown whether they are there; a build must not fail for that.
    await write().catch((error) => (isSandkeepError(error, "unavailable") ? write() : Promise.reject(error)));
    this.#number += lines.length;
  }

  /** those that the log has room for, and once that there is no more room */
  #fitting(messages: readonly string[]): string[] {
    const kept: string[] = [];
    for (const message of messages) {
      if (message === "" || this.#length > longestLog) continue;
      this.#length += message.length;
      const isFull = this.#length > longestLog || this.#number + kept.length >= mostLines;
      if (isFull) this.#length = Number.POSITIVE_INFINITY;
      kept.push(isFull ? logIsFull : message);
    }
    return kept;
  }
}
