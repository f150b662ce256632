/** Images made here, from a build plan or a snapshot. They belong to the caller's team. */

import type { Readable } from "node:stream";
import { FairSemaphore, QueueFull } from "../../base/concurrency/fair-semaphore.ts";
import { Queue } from "../../base/concurrency/queue.ts";
import { steady } from "../../base/concurrency/steady.ts";
import { unlessAborted } from "../../base/concurrency/waits.ts";
import { sha256Of } from "../../base/sha256.ts";
import type { Quotas } from "../access/quotas.ts";
import { type Context, memoryPerVcpu } from "../context.ts";
import { imageHere, resolveBase, type WantedImage, wantedImage } from "../images/images.ts";
import { eachTenth } from "../images/pull-reports.ts";
import { SandkeepError } from "../model/errors.ts";
import { imageKey, plainConfig, userOf } from "../model/image.ts";
import type { Caller, Owner } from "../model/sandbox.ts";
import { allowAll, type NetworkPolicy } from "../network/network-policy.ts";
import type { BuildContext, NewImage } from "../ports/image-builds.ts";
import type { ImageInfo, ImageSizes } from "../ports/images.ts";
import { Build, type BuildEvent, machineNetwork } from "./build.ts";
import { type BuildPlan, type ImageSettings, stagesBelow } from "./build-plan.ts";

export interface BuildSpec {
  /** name of the image; replaces an image of that name. Without a name the build only fills the cache */
  name?: string | undefined;
  /** names of the images that the plan needs; they are resolved before the plan is made */
  images: (string | WantedImage)[];
  plan: (images: ReadonlyMap<string, ImageSettings>) => BuildPlan;
  /** files to copy from; closed when the build is over */
  context?: BuildContext | undefined;
  networkPolicy?: NetworkPolicy | undefined;
  /** whether to reuse cached steps; default true */
  useCache?: boolean | undefined;
  vcpus?: number | undefined;
  /** MiB; default by the number of processors */
  memory?: number | undefined;
  /** longest duration in ms; default and maximum one hour */
  timeout?: number | undefined;
  /** aborts the build */
  signal?: AbortSignal | undefined;
}

/** What a build reports, and at its end the image, if it has a name. */
export type BuildProgress = BuildEvent | { type: "waiting" } | { type: "built"; image?: ImageInfo };

/** builds that run at once; others wait for their turn */
const mostAtOnce = 4;
const longestBuild = 3_600_000;
/** unread events of a caller before the build waits for it */
const mostBehind = 256;
/** what a build that is over its time has to end in its own way, which says at which step it was, in ms */
const grace = 5000;
/** contexts and packed images lie on the disk as long as a client likes */
const mostContexts = { ofTeam: 4, ofAll: 16, waiting: 1000 };
/** longest time without a byte while files are sent, in ms */
const longestSilence = 60_000;
const mostExports = { ofTeam: 2, ofAll: 8 };

export interface SizedImage {
  image: ImageInfo;
  sizes: ImageSizes;
}

export class Builds {
  readonly #context: Context;
  readonly #quotas: Pick<Quotas, "withImageDisk">;
  readonly #turns = new FairSemaphore({ ofAll: mostAtOnce });
  readonly #contexts = new FairSemaphore(mostContexts);
  readonly #exports = new FairSemaphore(mostExports);
  readonly #ending = new AbortController();
  readonly #underWay = new Map<string, Promise<void>>();
  /** builds that run or wait, each until all its work has stopped, and the deletion of old steps */
  readonly #builds = new Set<Promise<void>>();
  #running = 0;
  #prunedAt = Number.NEGATIVE_INFINITY;

  constructor(context: Context, quotas: Pick<Quotas, "withImageDisk">) {
    this.#context = context;
    this.#quotas = quotas;
  }

  /** takes the files of a build; a caller that does not build with them must close them */
  async receive({ teamId }: Owner, tar: AsyncIterable<Uint8Array>): Promise<BuildContext> {
    const { runtime } = this.#context;
    runtime.requireRoom();
    const release = this.#contexts.tryEnter(teamId);
    if (!release) throw tooMany("take the files of a build", "builds");
    return runtime.imageBuilds.receive(this.#steady(tar), release);
  }

  /**
   * keeps files for later builds of the team, under a name that the caller chose; replaces those of that name. Clients
   * send all files of a build at once, so they wait for their turn. The signal ends the wait
   */
  async keepUpload(
    { teamId }: Owner,
    name: string,
    tar: AsyncIterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<void> {
    const { runtime } = this.#context;
    runtime.requireRoom();
    const keep = () => runtime.imageBuilds.keepUpload(uploadKey(teamId, name), this.#steady(tar));
    await this.#contexts.run(teamId, keep, signal).catch((error: unknown) => {
      if (error instanceof QueueFull) throw tooMany("take the files of a build", "uploads");
      // The reason of a request's signal is no error.
      throw signal?.aborted
        ? new SandkeepError("gone", "Cannot take the files of a build: the client has gone")
        : error;
    });
  }

  #steady(tar: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    const late = () => new SandkeepError("timeout", "Cannot take the files of a build: they arrive too slowly");
    return steady(tar, { idle: longestSilence, longest: longestBuild, now: this.#context.now, late });
  }

  async hasUpload({ teamId }: Owner, name: string): Promise<boolean> {
    return this.#context.runtime.imageBuilds.hasUpload(uploadKey(teamId, name));
  }

  /** builds while the caller reads the events; if it stops reading, the build ends at once and drops its last step */
  async build(owner: Owner, spec: BuildSpec): Promise<AsyncGenerator<BuildProgress>> {
    return this.#events(owner, spec);
  }

  async *#events(owner: Owner, spec: BuildSpec): AsyncGenerator<BuildProgress> {
    const left = new AbortController();
    const ends = [left.signal, this.#ending.signal, owner.ended, spec.signal];
    const signal = AbortSignal.any(ends.filter((each) => each !== undefined));
    const events = new Queue<BuildProgress>(mostBehind);
    const working = this.#work(owner, spec, signal, (event) => events.put(event)).then(
      () => events.end(),
      (error) => events.end(error),
    );
    this.#builds.add(working);
    try {
      yield* events;
    } finally {
      left.abort(new SandkeepError("gone", "Cannot build the image: the client has gone"));
      await working;
      this.#builds.delete(working);
    }
  }

  /** aborts all builds; resolves when all their work has stopped */
  async close(): Promise<void> {
    this.#ending.abort(new SandkeepError("unavailable", "Cannot build the image: the daemon is closing"));
    await Promise.all(this.#builds);
  }

  /** creates an image of this name with the files of a snapshot */
  async fromSnapshot(caller: Caller, snapshotId: string, name: string): Promise<ImageInfo> {
    const { store, runtime } = this.#context;
    const snapshot = await store.getSnapshot(snapshotId);
    if (snapshot?.teamId !== caller.teamId || snapshot.runtimeId === undefined) {
      throw new SandkeepError(
        "not-found",
        `Cannot make an image of snapshot "${snapshotId}": there is no such snapshot`,
      );
    }
    runtime.requireRoom();
    const { teamId: owner } = caller;
    const { runtimeId, sizeBytes } = snapshot;
    const bytes = async () => (await runtime.imageBuilds.diskOf(owner, { without: name })) + sizeBytes;
    const publish = () => runtime.imageBuilds.publishSnapshot(runtimeId, { name, owner });
    return this.#quotas.withImageDisk(owner, bytes, publish);
  }

  /** the images that the team may boot: its own and the host's */
  list(caller: Caller): Promise<ImageInfo[]> {
    return this.#context.runtime.images.list(caller.teamId);
  }

  /** the same, with their sizes */
  async listSized({ teamId }: Caller): Promise<SizedImage[]> {
    const { images } = this.#context.runtime;
    const all = await images.list(teamId);
    return Promise.all(all.map(async (image) => ({ image, sizes: await images.sizes(image, teamId) })));
  }

  /** an image that the team may boot, by a name or digest that a create finds here */
  async get({ teamId }: Caller, name: string): Promise<SizedImage> {
    const { images } = this.#context.runtime;
    const image = await imageHere(images, wantedImage(name), teamId);
    if (image) return { image, sizes: await images.sizes(image, teamId) };
    throw new SandkeepError("not-found", `Cannot show image "${name}": there is no such image`);
  }

  /** deletes an image of the team's own; sandboxes and snapshots that need its files keep them */
  async delete(caller: Caller, name: string): Promise<void> {
    const { images } = this.#context.runtime;
    const key = imageKey({ name, owner: caller.teamId });
    const image = (await images.list(caller.teamId)).find((each) => imageKey(each) === key);
    if (!image) throw new SandkeepError("not-found", `Cannot delete image "${name}": the team has no such image`);
    await images.delete(key);
  }

  /** a tar that other tools load; only whole images can be packed, not those that need this host's own files */
  async export(caller: Caller, name: string, signal?: AbortSignal): Promise<Readable> {
    const image = await this.#context.runtime.images.get(name, caller.teamId);
    if (!image) throw new SandkeepError("not-found", `Cannot export image "${name}": there is no such image`);
    const release = this.#exports.tryEnter(caller.teamId);
    if (!release) throw tooMany(`export image "${name}"`, "exports");
    try {
      const ends = [this.#ending.signal, caller.ended, signal].filter((each) => each !== undefined);
      const archive = await this.#context.runtime.imageBuilds.export(imageKey(image), AbortSignal.any(ends));
      return archive.once("close", release);
    } catch (error) {
      release();
      // The reason of a request's signal is no error.
      throw signal?.aborted ? new SandkeepError("gone", `Cannot export image "${name}": the client has gone`) : error;
    }
  }

  /** deletes cached steps that no build has used for long; runs after builds and at the start */
  async prune(): Promise<void> {
    const { runtime, now, limits } = this.#context;
    if (limits.buildCacheRetention === 0) return;
    this.#prunedAt = now();
    const pruning = runtime.imageBuilds.prune(now() - limits.buildCacheRetention);
    const isOver = pruning.then(
      () => undefined,
      () => undefined,
    );
    this.#builds.add(isOver);
    await pruning.finally(() => this.#builds.delete(isOver));
  }

  async #work(
    owner: Owner,
    spec: BuildSpec,
    signal: AbortSignal,
    tell: (event: BuildProgress) => Promise<void>,
  ): Promise<void> {
    try {
      if (this.#running >= mostAtOnce) await tell({ type: "waiting" });
      const build = () => this.#inTime(spec, signal, tell, (...job) => this.#build(owner, spec, ...job));
      await this.#turns.run(owner.teamId, build, signal);
    } finally {
      await spec.context?.close();
    }
    if (this.#context.now() - this.#prunedAt > longestBuild) await this.prune().catch(this.#context.logError);
  }

  /** a caller that reads nothing must not keep a turn: events wait for it only as long as the build may take */
  async #inTime(
    spec: BuildSpec,
    signal: AbortSignal,
    tell: (event: BuildProgress) => Promise<void>,
    work: (signal: AbortSignal, tell: (event: BuildProgress) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const late = new AbortController();
    const error = new SandkeepError("timeout", "Cannot build the image: it exceeded its time limit");
    const timer = setTimeout(() => late.abort(error), longestOf(spec) + grace).unref();
    const either = AbortSignal.any([signal, late.signal]);
    this.#running++;
    try {
      await work(either, async (event) => {
        await unlessAborted(tell(event), either);
        either.throwIfAborted();
      });
    } finally {
      this.#running--;
      clearTimeout(timer);
    }
  }

  async #build(
    { teamId }: Owner,
    spec: BuildSpec,
    signal: AbortSignal,
    tell: (event: BuildProgress) => Promise<void>,
  ): Promise<void> {
    const { now, limits, runtime } = this.#context;
    signal.throwIfAborted();
    runtime.requireRoom();
    if (spec.name !== undefined) {
      runtime.imageBuilds.checkName(spec.name);
      // Where the others are too large already, not even a small image has room.
      const others = () => runtime.imageBuilds.diskOf(teamId, { without: spec.name });
      await this.#quotas.withImageDisk(teamId, others, async () => undefined);
    }
    const found = await this.#resolve(teamId, spec.images, signal, tell);
    const plan = spec.plan(new Map([...found].map(([name, image]) => [name, settingsOf(image)])));
    const network = spec.networkPolicy ?? allowAll;
    machineNetwork(network);
    const key = await new Build({
      context: this.#context,
      teamId,
      plan,
      files: spec.context,
      upload: (name) => this.#openUpload(teamId, name),
      images: new Map([...found].map(([name, image]) => [name, { image: imageKey(image), digest: digestOf(image) }])),
      network,
      useCache: spec.useCache ?? true,
      underWay: this.#underWay,
      ...sizeOf(spec, limits.defaultVcpus),
      deadline: now() + longestOf(spec),
      signal,
      tell,
    }).run();
    signal.throwIfAborted();
    const { name } = spec;
    const image = name === undefined ? undefined : await this.#publish(key, this.#newImage(teamId, name, plan));
    await tell({ type: "built", ...(image && { image }) });
  }

  #publish(key: string, image: NewImage): Promise<ImageInfo> {
    const { imageBuilds } = this.#context.runtime;
    const bytes = () => imageBuilds.diskOf(image.owner, { without: image.name, key });
    return this.#quotas.withImageDisk(image.owner, bytes, () => imageBuilds.publish(key, image));
  }

  async #openUpload(teamId: string, name: string): Promise<BuildContext> {
    const files = await this.#context.runtime.imageBuilds.openUpload(uploadKey(teamId, name));
    if (files) return files;
    throw new SandkeepError("invalid", "the files to copy were not uploaded");
  }

  /** the images that a build begins with, pulled if need be; a pull goes on for others when this build is aborted */
  async #resolve(
    teamId: string,
    names: BuildSpec["images"],
    signal: AbortSignal,
    tell: (event: BuildProgress) => Promise<void>,
  ): Promise<Map<string, ImageInfo>> {
    const found = new Map<string, ImageInfo>();
    for (const each of names) {
      const plain = typeof each === "string" ? wantedImage(each) : each;
      const { name } = plain;
      let told: Promise<void> = Promise.resolve();
      const pulling = eachTenth((progress) => {
        told = told.then(() => tell({ type: "pulling", image: name, ...progress }));
        told.catch(() => undefined);
      });
      const base = await unlessAborted(resolveBase(this.#context, { teamId }, { image: plain, pulling }), signal);
      await told;
      signal.throwIfAborted();
      const image = base && (await this.#context.runtime.images.get(base.image));
      if (!image) throw new SandkeepError("not-found", `Cannot build the image: the image "${name}" was just deleted`);
      found.set(name, image);
    }
    return found;
  }

  #newImage(owner: string, name: string, plan: BuildPlan): NewImage {
    const stage = plan.stages[plan.target];
    if (!stage) throw new SandkeepError("internal", "Cannot build the image: its plan has no target");
    const { env, user, cwd, entrypoint, command, ports, volumes, labels, stopSignal, shell, start } = stage.settings;
    const at = this.#context.now();
    const history = stagesBelow(plan)
      .flatMap(({ steps }) => steps)
      .map(({ text, action }) => ({
        createdBy: text,
        createdAt: at,
        ...(action.kind === "setting" && { isEmpty: true }),
      }));
    return {
      name,
      owner,
      env,
      user: userOf({ user }),
      cwd: cwd || "/",
      config: {
        ...plainConfig(),
        user,
        cwd,
        entrypoint,
        command,
        ports,
        volumes,
        labels,
        ...(stopSignal !== undefined && { stopSignal }),
        ...(shell && { shell }),
        ...(start && { start }),
        builtAt: at,
        history,
      },
    };
  }
}

function longestOf({ timeout = longestBuild }: BuildSpec): number {
  return Math.min(timeout, longestBuild);
}

function tooMany(what: string, which: string): SandkeepError {
  return new SandkeepError("limit", `Cannot ${what}: too many ${which} are under way; try again when one is over`);
}

/** memory in MiB */
function sizeOf({ vcpus, memory }: BuildSpec, usual: number): { vcpus: number; memory: number } {
  const processors = vcpus ?? usual;
  return { vcpus: processors, memory: memory ?? processors * memoryPerVcpu };
}

/** teams never share what they sent */
function uploadKey(teamId: string, name: string): string {
  return sha256Of("upload", teamId, name);
}

/** what a stage that begins with the image takes over from it */
function settingsOf({ env, user, cwd, config }: ImageInfo): ImageSettings {
  return {
    env,
    user: config?.user || user,
    cwd: config?.cwd || cwd,
    entrypoint: config?.entrypoint ?? [],
    command: config?.command ?? [],
    ports: config?.ports ?? [],
    volumes: config?.volumes ?? [],
    labels: config?.labels ?? {},
    stopSignal: config?.stopSignal,
    shell: config?.shell,
    onBuild: config?.onBuild,
    start: config?.start,
  };
}

function digestOf(image: ImageInfo): string {
  return image.layers.join(" ");
}
