/**
 * The only file that talks to the launcher: starts it when it is not there, and turns each of its requests into a
 * method. guest/launcher/launch.c and guest/launcher/machine.c say what they mean.
 */

import { constants } from "node:os";
import { isSandkeepError, messageOf } from "../../../core/model/errors.ts";
import type { NetworkMode } from "../../../core/ports/runtime.ts";
import { type FrameReader, FrameWriter, Type, wireVersion } from "../../../protocols/guest-frames.ts";
import type { FileSession } from "../files/file-session.ts";
import type { LayerTools } from "../layers/layers.ts";
import type { ActivatePlan, OrphanPlan, PreparePlan } from "../machines/plan.ts";
import { askAlone, Channel, NothingAnswers, OtherWireVersion, openFiles, Unanswered, unanswered } from "./channel.ts";
import { errnoOf, withoutFolders } from "./failure.ts";
import { type ChildEnd, socketOf, startLauncher } from "./launcher-start.ts";
import { answers, Silence, usualPatience } from "./silence.ts";

export interface LauncherOptions {
  /** its own folder, on a tmpfs */
  run: string;
  /** the guest binary */
  binary: string;
  /** command line of the egress process */
  egress: string[];
  /** environment of the launcher and, through it, of the egress process */
  env: Record<string, string>;
  /** machines that live, asked when the launcher has died and a new one is started */
  orphans: () => OrphanPlan[];
  /** how long it may leave requests without an answer, in ms; default 20,000. Its helpers have a multiple of this */
  patience?: number;
  /** called with a sentence when it has died though nothing asked it to, and another one has taken its place or cannot */
  died?: (sentence: string) => void;
}

export interface LaunchedMachine {
  name: string;
  pid: number;
  state: "prepared" | "activating" | "running";
}

/** Bytes that a machine has received and sent. */
interface Traffic {
  received: number;
  sent: number;
}

const modes: Record<NetworkMode, number> = { "deny-all": 0, "allow-all": 1, custom: 2 };
const states = ["prepared", "activating", "running"] as const;
/** to start one */
const attempts = 3;
/** how long a helper process may work on a request, as a multiple of the patience: 5 minutes, and an hour for a merge */
const ofHelper = 15;
const ofMerge = 180;

export class Launcher implements LayerTools {
  readonly #options: LauncherOptions;
  #channel: Promise<Channel>;
  #closing = false;
  /** the last one died, and no other could be started */
  #isMissing = false;
  /** requests without an answer yet, and what new requests wait for while the launcher is replaced */
  readonly #underWay = new Set<Promise<unknown>>();
  #replaced: Promise<void> | undefined;
  /** how the last one ended that this process started, where that is known */
  #end: ChildEnd | undefined;
  readonly #silence: Silence;
  pid = 0;
  /** whether the connection to it is open, so that the number above is its own */
  #isConnected = false;

  private constructor(options: LauncherOptions) {
    this.#options = options;
    this.#silence = new Silence({
      waiting: () => this.#underWay.size,
      ask: async () => (await this.#channel).request(Type.machines),
      silent: () => this.#killSilent(),
      ...(options.patience !== undefined && { patience: options.patience }),
    });
    this.#channel = this.#connect();
  }

  /** connects to the launcher that is there, or starts one, which outlives this process */
  static async open(options: LauncherOptions): Promise<Launcher> {
    const launcher = new Launcher(options);
    await launcher.#channel;
    return launcher;
  }

  close(): void {
    this.#closing = true;
    this.#silence.close();
    void this.#channel.then(
      (channel) => channel.close(),
      () => undefined,
    );
  }

  /** ends the launcher; machines go on */
  async shutdown(): Promise<void> {
    this.#closing = true;
    await this.#request(Type.shutdown).catch((error) => {
      // It is gone, as requested: it ended before its answer was read, or it had died before.
      if (!isSandkeepError(error, "gone")) throw error;
    });
    this.close();
  }

  /** ends the launcher and starts another, which takes over what lives; requests made meanwhile wait for it */
  async replace(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#replaced = promise;
    try {
      while (this.#underWay.size > 0) await Promise.allSettled([...this.#underWay]);
      const before = this.#channel;
      await (await before).request(Type.shutdown).catch((error) => {
        if (!isSandkeepError(error, "gone")) throw error;
      });
      // The end of its connection is what #lost() is called for.
      while (this.#channel === before) await new Promise((again) => setTimeout(again, 2));
      await this.#channel;
    } finally {
      this.#replaced = undefined;
      resolve();
    }
  }

  /** namespaces, cgroups and network of a machine; returns its first process */
  async prepare(plan: PreparePlan): Promise<number> {
    const answer = await this.#request(
      Type.prepare,
      new FrameWriter()
        .str(plan.name)
        .u32(plan.base)
        .str(plan.socket)
        .str(plan.journal)
        .str(plan.unified)
        .list(plan.cgroups)
        .str(plan.memoryEvents)
        .u8(modes[plan.network]),
    );
    return answer.u32();
  }

  /** mounts its root and lets its agent serve */
  async activate(plan: ActivatePlan): Promise<void> {
    const payload = new FrameWriter()
      .str(plan.name)
      .list(plan.layers)
      .str(plan.volume)
      .u32(plan.noNewPrivileges ? 1 : 0)
      .u32(plan.cpus)
      .u64(plan.sharedMemory)
      .u16(plan.mounts.length);
    for (const mount of plan.mounts)
      payload
        .str(mount.path)
        .str(mount.directory)
        .u8(mount.readOnly ? 1 : 0);
    await this.#request(Type.activate, payload);
  }

  /** resolves once no process of it is left; with false when the launcher does not know it */
  async kill(name: string): Promise<boolean> {
    try {
      await this.#ask(Type.kill, new FrameWriter().str(name));
      return true;
    } catch (error) {
      if (errnoOf(error) === constants.errno.ESRCH) return false;
      throw error;
    }
  }

  /** as kill(), and tells the machine's traffic until then where that is known; undefined when the launcher does not know it */
  async end(name: string): Promise<{ traffic?: Traffic } | undefined> {
    try {
      const answer = await this.#ask(Type.killCount, new FrameWriter().str(name));
      return answer.isEmpty ? {} : { traffic: trafficIn(answer) };
    } catch (error) {
      if (errnoOf(error) === constants.errno.ESRCH) return undefined;
      if (errnoOf(error) !== constants.errno.ENOSYS) throw error;
    }
    // One of an earlier build takes two requests.
    const traffic = await this.counters(name).catch(() => undefined);
    return (await this.kill(name)) ? { ...(traffic && { traffic }) } : undefined;
  }

  async setNetwork(name: string, mode: NetworkMode): Promise<void> {
    await this.#ask(Type.network, new FrameWriter().str(name).u8(modes[mode]));
  }

  async counters(name: string): Promise<Traffic> {
    return trafficIn(await this.#ask(Type.counters, new FrameWriter().str(name)));
  }

  async readopt(orphan: OrphanPlan): Promise<void> {
    await this.#request(Type.readopt, readoptPayload(orphan));
  }

  /** whether programs may add to files; `processes` is the list of the machine's cgroup */
  async setWrites(name: string, processes: string, allowed: boolean): Promise<void> {
    await this.#request(
      Type.writes,
      new FrameWriter()
        .str(name)
        .str(processes)
        .u8(allowed ? 1 : 0),
    );
  }

  async machines(): Promise<LaunchedMachine[]> {
    const answer = await this.#ask(Type.machines);
    return Array.from({ length: answer.u32() }, () => {
      const name = answer.str();
      const pid = answer.u32();
      return { name, pid, state: states[answer.u8()] ?? "prepared" };
    });
  }

  async createVolume(path: string): Promise<void> {
    await this.#request(Type.volumeCreate, new FrameWriter().str(path));
  }

  /**
   * a writable copy that shares its data, limited to so many bytes unless that is 0; it and all that the original held are
   * on the disk when this resolves
   */
  async snapshotVolume(from: string, to: string, limit = 0): Promise<void> {
    const copy = this.#request(Type.volumeCopy, new FrameWriter().str(from).str(to).u64(limit));
    const longest = (this.#options.patience ?? usualPatience) * ofHelper;
    if (!(await answers(copy, longest))) throw unanswered("the launcher", longest);
    await copy.catch(async (error: unknown) => {
      const errno = errnoOf(error);
      const isLost = isSandkeepError(error, "gone") && errno === undefined;
      if (!isLost && errno !== constants.errno.ENOSYS) throw error;
      // The launcher died, and its helper may have finished the copy; or it is of an earlier build.
      await this.#alone(Type.volumeSnapshot, new FrameWriter().str(from).str(to)).catch((again) => {
        if (!isLost || errnoOf(again) !== constants.errno.EEXIST) throw again;
      });
      if (limit > 0) await this.limitVolume(to, limit);
    });
  }

  async deleteVolume(path: string): Promise<void> {
    await this.#request(Type.volumeDelete, new FrameWriter().str(path));
  }

  async limitVolume(path: string, bytes: number): Promise<void> {
    await this.#ask(Type.volumeLimit, new FrameWriter().str(path).u64(bytes));
  }

  /** for all volumes together that are given this line: a number from 1 to 2 ** 48 - 1 */
  async limitLine(path: string, bytes: number, line: number): Promise<void> {
    await this.#ask(Type.volumeLine, new FrameWriter().str(path).u64(bytes).u64(line)).catch((error) => {
      // One of an earlier build counts volumes one by one.
      if (errnoOf(error) !== constants.errno.ENOSYS) throw error;
    });
  }

  /** removes the counters of deleted volumes and lines, in the file system that holds the path */
  async forgetCounts(path: string): Promise<void> {
    await this.#alone(Type.volumeForget, new FrameWriter().str(path)).catch((error) => {
      if (errnoOf(error) !== constants.errno.ENOSYS) throw error;
    });
  }

  /** turns limits on for the file system that holds the path */
  async enableVolumeLimits(path: string): Promise<void> {
    await this.#request(Type.volumeLimit, new FrameWriter().str(path).u64(0xffff_ffff_ffff_ffffn));
  }

  async volumeUsage(path: string): Promise<number> {
    return (await this.#ask(Type.volumeUsage, new FrameWriter().str(path))).u64();
  }

  /** the socket of filesAt(), for other threads */
  get filesSocket(): string {
    return socketOf(this.#options);
  }

  /** file requests below a directory, as the host's root, with nothing above it in reach */
  filesAt(directory: string): Promise<FileSession> {
    const open = () => openFiles(socketOf(this.#options), "the launcher", Type.filesAt, directory);
    return this.#counted(() => this.#dialled(open)).catch((error) => {
      throw withoutFolders(error);
    });
  }

  /** merges layers, topmost first, into an empty directory */
  async flatten(layers: string[], into: string): Promise<void> {
    await this.#alone(Type.flatten, new FrameWriter().list(layers).str(into), ofMerge);
  }

  /** resolves when the file system that holds the path is on the disk */
  async sync(path: string): Promise<void> {
    await this.#alone(Type.sync, new FrameWriter().str(path));
  }

  /** a request that takes its time: the launcher's helper process answers it on a connection of its own */
  #alone(type: number, payload: FrameWriter, times = ofHelper): Promise<void> {
    const longest = (this.#options.patience ?? usualPatience) * times;
    const ask = () => askAlone(socketOf(this.#options), "the launcher", payload.frame(type, 1), longest);
    return this.#counted(() => this.#dialled(ask));
  }

  /** a request on a connection of its own; where nothing listens, the launcher has died, and its successor gets it */
  async #dialled<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof NothingAnswers)) throw error;
    }
    const greet = async () => (await this.#current()).request(Type.hello, new FrameWriter().u32(wireVersion));
    // The first one may find out that the connection has ended.
    await greet().catch(greet);
    return ask();
  }

  /** as #request, for requests that may be repeated: if the launcher dies meanwhile, its successor can answer too */
  #ask(type: number, payload?: FrameWriter): Promise<FrameReader> {
    return this.#request(type, payload).catch((error) => {
      if (!isSandkeepError(error, "gone") || errnoOf(error) !== undefined) throw error;
      return this.#request(type, payload);
    });
  }

  #request(type: number, payload?: FrameWriter): Promise<FrameReader> {
    return this.#counted(async () => {
      return (await this.#current()).request(type, payload).catch((error) => {
        throw withoutFolders(error);
      });
    });
  }

  /** the connection to the launcher that lives, or to the one that is being started */
  #current(): Promise<Channel> {
    if (this.#isMissing) this.#lost();
    return this.#channel;
  }

  /** waits while the launcher is being replaced, and keeps it from being replaced meanwhile */
  async #counted<T>(ask: () => Promise<T>): Promise<T> {
    while (this.#replaced) await this.#replaced;
    const answer = ask();
    this.#underWay.add(answer);
    this.#silence.watch();
    return answer.finally(() => this.#underWay.delete(answer));
  }

  /** tries again, as a launcher may die before it answers, and so may its successor */
  async #connect(): Promise<Channel> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#connectOnce();
      } catch (error) {
        if (attempt === attempts || this.#closing || error instanceof Unanswered) throw error;
      }
    }
  }

  async #connectOnce(): Promise<Channel> {
    let isOpen = false;
    const events = {
      closed: () => {
        if (isOpen) this.#lost();
      },
    };
    const { patience } = this.#options;
    const there = await Channel.open(socketOf(this.#options), "the launcher", events, patience).catch(unlessAlive);
    const channel = there ?? (await startLauncher(this.#options, events, (end) => this.#ended(end)));
    const hello = await channel.request(Type.hello, new FrameWriter().u32(wireVersion));
    hello.u32();
    this.pid = hello.u32();
    isOpen = true;
    this.#isConnected = true;
    return channel;
  }

  /**
   * requests made from now on wait for a new launcher, which first takes over what lives; if it cannot be started now,
   * the next request tries again
   */
  #lost(): void {
    this.#isConnected = false;
    if (this.#closing) return;
    this.#isMissing = false;
    const { pid: before } = this;
    const isAsked = this.#replaced !== undefined;
    const tell = (then: string) => {
      const how = this.#end?.pid === before ? this.#end.how : "died";
      if (!isAsked) this.#options.died?.(`The launcher (process ${before}) ${how}; ${then}`);
    };
    this.#channel = this.#connect().then(async (channel) => {
      const taken = this.#options.orphans().map((orphan) => channel.request(Type.readopt, readoptPayload(orphan)));
      // a machine that died with the launcher is found dead when it is next used
      await Promise.allSettled(taken);
      tell(`process ${this.pid} has taken its place, and sandboxes keep running`);
      return channel;
    });
    this.#channel.catch((error) => {
      this.#isMissing = true;
      tell(`no other could be started: ${messageOf(error)}; the next request tries again`);
    });
  }

  /** a launcher that lives and does not answer, as after SIGSTOP, makes room for another one */
  #killSilent(): void {
    if (!this.#isConnected) return;
    this.#end = { pid: this.pid, how: "did not answer and was killed" };
    process.kill(this.pid, "SIGKILL");
  }

  #ended(end: ChildEnd): void {
    if (this.#end?.pid !== end.pid) this.#end = end;
  }
}

function trafficIn(answer: FrameReader): Traffic {
  return { received: answer.u64(), sent: answer.u64() };
}

function readoptPayload({ name, pid, base, socket, unified, network }: OrphanPlan): FrameWriter {
  return new FrameWriter().str(name).u32(pid).u32(base).str(socket).str(unified).u8(modes[network]);
}

/** a launcher of another version, or one that is stopped, holds machines that a second launcher would take for dead */
function unlessAlive(error: unknown): undefined {
  if (error instanceof OtherWireVersion || error instanceof Unanswered) throw error;
}
