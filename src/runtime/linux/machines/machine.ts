/** A booted machine: what callers do with it, and how it ends. The driver makes and adopts them. */

import { existsSync } from "node:fs";
import type { Duplex } from "node:stream";
import { Retries } from "../../../base/concurrency/retries.ts";
import { within } from "../../../base/concurrency/waits.ts";
import { codeOf } from "../../../base/error-code.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type {
  ExecSpec,
  Files,
  Machine,
  MachineEnd,
  MachineNetwork,
  NetworkMode,
  Process,
  SnapshotInfo,
  Usage,
} from "../../../core/ports/runtime.ts";
import type { Ancestry } from "../../../protocols/egress-control.ts";
import type { MachineRecord } from "../../../protocols/machine-record.ts";
import type { Components } from "../components.ts";
import { filesOver } from "../files/files.ts";
import { Agent, type AgentOptions, machinePaused } from "../guest-wire/agent.ts";
import { typed } from "../guest-wire/failure.ts";
import { type CgroupUsage, isInCgroup, killProcesses, readUsage } from "../host/cgroup.ts";
import { lossOf, storeError } from "../storage/store-error.ts";
import { canFreeze, freeze } from "./freezer.ts";
import { releaseMachine } from "./machine-registry.ts";
import { type MemoryReclaim, reclaimMemory } from "./memory-reclaim.ts";
import { isPlainName, isTerminalSize, type MachinePlan, modeOf } from "./plan.ts";
import { writeRecord } from "./record-files.ts";

/** how long a pause waits for commands that are being started, in ms */
const longestStart = 1000;
const noTraffic: Usage["network"] = { received: 0, sent: 0 };

export class LinuxMachine implements Machine {
  readonly id: string;
  readonly plan: MachinePlan;
  readonly record: MachineRecord;
  readonly ended: Promise<MachineEnd>;
  readonly #components: Components;
  readonly #agent: Agent;
  #settle: (end: MachineEnd) => void = () => {};
  #stopping: Promise<MachineEnd> | undefined;
  #network = noTraffic;
  #networkChange: Promise<void> = Promise.resolve();
  #isPaused = false;
  #pausing = new AbortController();
  /** commands that the agent is starting */
  readonly #starting = new Set<Promise<unknown>>();
  #reclaiming: MemoryReclaim | undefined;

  constructor(components: Components, plan: MachinePlan, record: MachineRecord, agent?: Agent) {
    this.#components = components;
    this.plan = plan;
    this.record = record;
    this.id = record.id;
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.#agent = agent ?? agentFor(plan, components.output);
    this.#agent.whenGone(() => void this.#died());
  }

  /** connects to the agent; throws when it does not answer */
  open(): Promise<void> {
    return this.#agent.open();
  }

  /** takes over a machine that is frozen; throws when its agent is dead */
  async openPaused(): Promise<void> {
    this.#isPaused = true;
    this.#pausing.abort();
    await this.#agent.openPaused();
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get pausing(): AbortSignal {
    return this.#pausing.signal;
  }

  /** disconnects without stopping the machine */
  close(): void {
    this.#agent.close();
  }

  get spec(): Machine["spec"] {
    return this.record.spec;
  }

  get image(): string {
    return this.record.image.reference;
  }

  get bootedAt(): number {
    return this.record.bootedAt;
  }

  async exec(spec: ExecSpec): Promise<Process> {
    this.#mustRun("run a command");
    checkExec(spec);
    this.#components.pool.used();
    const starting = this.#agent.exec(spec, this.record.image.env);
    this.#starting.add(starting);
    try {
      return await starting;
    } catch (error) {
      throw storeError(this.#components, error, `run "${spec.argv[0]}"`);
    } finally {
      this.#starting.delete(starting);
    }
  }

  process(commandId: string): Process | undefined {
    return isPlainName(commandId) ? this.#agent.process(commandId) : undefined;
  }

  processes(): Process[] {
    return this.#agent.processes();
  }

  files(user = "root"): Files {
    const files = filesOver(
      (as) => {
        this.#mustRun("use files");
        return this.#agent.files(as === "root" ? as : user);
      },
      { explained: (error) => storeError(this.#components, error, "use files"), machine: this },
    );
    return withRoom(files, (what) => this.#components.room?.require(what));
  }

  async connect(port: number): Promise<Duplex> {
    this.#mustRun("connect");
    if (!Number.isInteger(port) || port < 1 || port > 65_535) {
      throw new SandkeepError("invalid", `Cannot connect to port ${port}: a port is 1 to 65535`);
    }
    const socket = await this.#agent.connect(port);
    this.#components.ports.count(this.plan.folder, port, socket);
    return socket;
  }

  /** how many filters of system calls its programs may have from now on */
  limitFilters(most: number): Promise<void> {
    return this.#agent.limitFilters(most);
  }

  /** id of the command that a process inside belongs to */
  commandOf(ancestry: Ancestry): string | undefined {
    return this.#agent.commandOf(ancestry);
  }

  /** one change after the other: each consists of two orders, and the stricter one goes first */
  async setNetwork(network: MachineNetwork): Promise<void> {
    const change = this.#networkChange.then(() => this.#changeNetwork(network));
    this.#networkChange = change.catch(() => undefined);
    return change;
  }

  async usage(): Promise<Usage> {
    if (this.record.ended) return this.record.ended.usage;
    await this.#readCounters();
    const disk = await this.#components.volumes.usage(this.plan.volume);
    return this.#usage(readUsage(this.plan.cgroup), disk);
  }

  async snapshot(): Promise<SnapshotInfo> {
    this.#mustLive("take a snapshot");
    this.#components.room?.require("take a snapshot");
    return this.#components.capturer.live(this).catch((error) => {
      const refused = typed(error, `Cannot take a snapshot of machine "${this.id}"`);
      throw storeError(this.#components, refused, `take a snapshot of machine "${this.id}"`);
    });
  }

  async pause(): Promise<SnapshotInfo> {
    this.#mustRun("pause");
    if (!canFreeze(this.plan.cgroup)) {
      throw new SandkeepError("unsupported", "Cannot pause the sandbox: this host's kernel has no freezer for it");
    }
    this.#components.room?.require("pause a sandbox");
    this.#isPaused = true;
    try {
      // A command that the frozen agent has not started would start at the resume, after its caller got an error.
      await within(Promise.allSettled(this.#starting), longestStart);
      const snapshot = await this.#components.capturer.live(this);
      this.record.paused = true;
      writeRecord(this.plan.folder, this.record);
      this.#agent.pause();
      this.#pausing.abort();
      this.#reclaiming = reclaimMemory(this.plan.cgroup, this.spec.limits.memory);
      return snapshot;
    } catch (error) {
      await this.resume().catch(() => undefined);
      const refused = typed(error, `Cannot pause machine "${this.id}"`);
      throw storeError(this.#components, refused, `pause machine "${this.id}"`);
    }
  }

  async resume(): Promise<void> {
    this.#mustLive("resume");
    if (!this.#isPaused) return;
    this.#reclaiming?.stop();
    await this.#setFrozen(false);
    try {
      await this.#agent.resume();
    } catch (error) {
      if (!this.#stopping) await this.#setFrozen(true).catch(() => undefined);
      throw typed(error, `Cannot resume machine "${this.id}"`);
    }
    this.#pausing = new AbortController();
    delete this.record.paused;
    // A record that still says so does no harm: the next daemon sees that nothing is frozen.
    await refusal(() => writeRecord(this.plan.folder, this.record));
  }

  async #setFrozen(frozen: boolean): Promise<void> {
    await this.#components.capturer.between(this, async () => {
      await freeze(this.plan.cgroup, frozen);
      this.#isPaused = frozen;
    });
  }

  stop(options: { snapshot?: boolean } = {}): Promise<MachineEnd> {
    this.#stopping ??= this.#end({ cause: "asked", reason: "It was asked to stop" }, options.snapshot ?? false);
    return this.#stopping;
  }

  /** ends it because the file system below it has failed; its files stay as they are */
  async lose(reason: string): Promise<void> {
    this.#stopping ??= this.#end({ cause: "host", reason }, "keep");
    await this.#stopping.catch(() => undefined);
  }

  async #changeNetwork(network: MachineNetwork): Promise<void> {
    this.#mustLive("change the network");
    const mode = modeOf(network);
    if (typeof network !== "string") await this.#components.egress.set(this.plan.name, network);
    if (mode !== this.record.spec.network || this.record.networkUnsure) await this.#changeMode(mode);
    if (mode !== "custom") this.#components.egress.drop(this.plan.name);
  }

  /**
   * marks the record before the change, as a daemon that is killed meanwhile leaves either network. A cut-off works without
   * the mark, since the machine may have filled the disk
   */
  async #changeMode(mode: NetworkMode): Promise<void> {
    const note = async () => {
      const refused = await refusal(() => writeRecord(this.plan.folder, this.record));
      if (refused !== undefined && mode !== "deny-all") throw typed(refused, "Cannot change the network");
    };
    this.record.networkUnsure = true;
    await note();
    await this.#components.launcher.setNetwork(this.plan.name, mode);
    this.record.spec.network = mode;
    delete this.record.networkUnsure;
    await note();
  }

  /** denies all traffic where the network in force is unknown, until a caller sets it */
  async settleNetwork(): Promise<void> {
    if (this.record.networkUnsure) await this.#changeMode("deny-all");
  }

  #mustRun(what: string): void {
    this.#mustLive(what);
    if (this.#isPaused) throw machinePaused();
  }

  /** also a paused machine lives */
  #mustLive(what: string): void {
    if (this.#stopping) throw new SandkeepError("gone", `Cannot ${what} on machine "${this.id}": it has stopped`);
  }

  /** the agent is gone without a stop: the files stay, so that they can be salvaged */
  async #died(): Promise<void> {
    if (this.#stopping) return;
    const { outOfMemoryKills } = readUsage(this.plan.cgroup);
    const memory = outOfMemoryKills > 0;
    const how = memory ? "was killed by the kernel, as the sandbox's memory was used up" : "died";
    const sentence = `The first process of a sandbox (process ${this.record.pid}) ${how}; the sandbox ends, and its files are kept`;
    this.#components.warn(sentence, { session: this.id });
    this.#stopping = this.#end(
      memory
        ? { cause: "out-of-memory", reason: "Its memory was used up and the kernel killed its first process" }
        : { cause: "crash", reason: "Its first process died" },
      "keep",
    );
    await this.#stopping.catch(() => undefined);
  }

  /**
   * counters are read before the network goes, use after the last process has gone; a stop is on record at its end.
   * Once its processes are gone the machine has ended, whatever the disk refuses: files that cannot be captured stay
   * for salvage(), and the first refusal is thrown when nothing is left to do
   */
  async #end(why: Pick<MachineEnd, "cause" | "reason">, snapshot: boolean | "keep"): Promise<MachineEnd> {
    // Without a launcher, too: a stop that failed here could never be tried again.
    this.#reclaiming?.stop();
    this.#agent.expectEnd(true);
    const alive = await refusal(() => this.#kill());
    if (alive !== undefined && why.cause === "asked") {
      // It can be stopped again; nothing has changed.
      this.#stopping = undefined;
      this.#agent.expectEnd(false);
      throw typed(alive, `Cannot stop machine "${this.id}"`);
    }
    this.#agent.end();
    const usage = this.#usage(readUsage(this.plan.cgroup));
    const end: MachineEnd = { machineId: this.id, ...why, endedAt: Date.now(), usage };
    const captured = snapshot === true ? await refusal(() => this.#capture(end)) : undefined;
    // What salvage() finds later is not all that the machine had.
    const { health, store } = this.#components;
    if (captured !== undefined && health.hasFailed) Object.assign(end, { cause: "host", reason: lossOf(store) });
    this.record.ended = end;
    let recorded = await refusal(() => writeRecord(this.plan.folder, this.record));
    const discarded =
      snapshot === false ? await refusal(() => this.#components.volumes.delete(this.plan.volume)) : undefined;
    // a disk that was full may have room for the record now
    recorded &&= await refusal(() => writeRecord(this.plan.folder, this.record));
    if (recorded !== undefined) this.#recordLater();
    const released = await refusal(() => releaseMachine(this.#components, this));
    this.#settle(end);
    const first = captured ?? recorded ?? discarded ?? released;
    if (first === undefined) return end;
    throw storeError(
      this.#components,
      typed(first, `Cannot stop machine "${this.id}" in order`),
      `stop machine "${this.id}" in order`,
    );
  }

  async #kill(): Promise<void> {
    this.#components.pool.used();
    if (this.#isPaused) await this.#killFrozen();
    const ended = await this.#components.launcher.end(this.plan.name).catch(() => undefined);
    this.#network = ended?.traffic ?? this.#network;
    if (!ended) killFirst(this.record.pid, this.plan.cgroup);
  }

  /** on v1 a frozen process ends only once it is thawed: the first one is killed before, so that nothing runs on */
  async #killFrozen(): Promise<void> {
    const { cgroup } = this.plan;
    if (cgroup.unified !== undefined) return;
    await this.#readCounters();
    killFirst(this.record.pid, cgroup);
  }

  /** a record that says it runs would be believed by the next daemon: written as soon as there is room */
  #recordLater(): void {
    const record = async () => {
      if (existsSync(this.plan.folder)) writeRecord(this.plan.folder, this.record);
    };
    new Retries(() => undefined).again(this.id, record);
  }

  async #capture(end: MachineEnd): Promise<void> {
    end.snapshot = await this.#components.capturer.dead(this.plan, this.record);
  }

  async #readCounters(): Promise<void> {
    this.#network = await this.#components.launcher.counters(this.plan.name).catch(() => this.#network);
  }

  #usage(cgroup: CgroupUsage, disk?: number): Usage {
    return { ...cgroup, network: this.#network, ...(disk !== undefined && { disk }) };
  }
}

export function agentFor(plan: MachinePlan, limits: Pick<AgentOptions, "outputLimit" | "journalLimit">): Agent {
  const { outputLimit, journalLimit } = limits;
  return new Agent({ socket: plan.socket, journal: plan.journal, outputLimit, journalLimit });
}

/** the same files, which refuse to write while the host's disk is too full */
function withRoom(files: Files, requireRoom: (what: string) => void): Files {
  return {
    ...files,
    async write(path, data, options) {
      requireRoom(`write "${path}"`);
      await files.write(path, data, options);
    },
    async extract(directory, tar, options) {
      requireRoom(`write below "${directory}"`);
      await files.extract(directory, tar, options);
    },
    together: (use) => files.together((kept) => use(withRoom(kept, requireRoom))),
  };
}

/** without the launcher; all others of a machine go with its first process */
function killFirst(pid: number, cgroup: MachinePlan["cgroup"]): void {
  try {
    if (isInCgroup(pid, cgroup)) process.kill(pid, "SIGKILL");
  } catch (error) {
    if (codeOf(error) !== "ESRCH") throw error;
  }
  killProcesses(cgroup);
}

/** why a step failed, if it did */
async function refusal(step: () => unknown): Promise<unknown> {
  try {
    await step();
    return undefined;
  } catch (error) {
    return error;
  }
}

function checkExec(spec: ExecSpec): void {
  const refuse = (why: string) => new SandkeepError("invalid", `Cannot run "${spec.argv[0] ?? ""}": ${why}`);
  if (!isPlainName(spec.id)) throw refuse(`a command's id is 1 to 64 of A-Z a-z 0-9 _ -, not "${spec.id}"`);
  if (spec.argv.length === 0 || spec.argv[0] === "") throw refuse("it names no program");
  const texts = [...spec.argv, spec.cwd ?? "", spec.user ?? "", ...(spec.groups ?? [])];
  if (texts.some((text) => text.includes("\0"))) throw refuse("a text holds a NUL byte");
  for (const [name, value] of Object.entries(spec.env ?? {})) {
    if (name === "" || /[=\0]/.test(name) || value.includes("\0")) throw refuse(`"${name}" is no environment variable`);
  }
  const all = [...texts, ...Object.entries(spec.env ?? {}).flat()];
  const size = all.reduce((sum, text) => sum + Buffer.byteLength(text) + 8, 0);
  if (size >= 512 << 10) throw refuse("its arguments and environment are longer than 512 KiB");
  const { timeLimit, outputLimit, pty } = spec;
  if (timeLimit !== undefined && !(timeLimit > 0 && timeLimit <= 0xffff_ffff))
    throw refuse(`its time limit is ${timeLimit} ms`);
  if (outputLimit !== undefined && !(Number.isSafeInteger(outputLimit) && outputLimit >= 0)) {
    throw refuse(`its output limit is ${outputLimit} bytes`);
  }
  if (pty && !isTerminalSize(pty)) throw refuse("its terminal has no sensible size");
}
