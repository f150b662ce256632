/**
 * What the core needs of a machine: the interface that every runtime implements and that
 * test/conformance/runtime.ts checks. All times are in milliseconds, all sizes in bytes.
 */

import type { Duplex, Readable } from "node:stream";
import type { ExitStatus, OutputStream } from "../../protocols/output-journal.ts";
import type { ImageConfig, ImagePart, ImageSource } from "../model/image.ts";
import type { EgressLine, HostTraffic, PortTraffic } from "../network/egress-log.ts";
import type { CustomNetwork } from "../network/network-policy.ts";
import type { ImageBuilds } from "./image-builds.ts";

export type { ExitStatus, OutputStream } from "../../protocols/output-journal.ts";

/** Makes machines, keeps the file systems they boot from, and finds both again after the daemon died. */
export interface Runtime {
  /** opens the runtime: starts or finds its launcher, undoes what was half made, fills the pool */
  open(): Promise<void>;
  /** lets go of everything without stopping a machine */
  close(): Promise<void>;

  /** throws "no-room" while the host's disk is too full to boot another machine */
  requireRoom(): void;
  boot(spec: MachineSpec): Promise<Machine>;
  /** every machine that is alive now, as found when the runtime was opened or booted since */
  machines(): Machine[];
  machine(id: string): Machine | undefined;
  /** how many machines were found at open() of which only the files are known, as their records are damaged */
  damaged(): number;
  /** of every machine that is not forgotten yet */
  ends(): MachineEnd[];
  /** how a machine ended that is not forgotten yet */
  end(machineId: string): MachineEnd | undefined;
  /** what its journal says of a command, on a machine that may be stopped */
  command(machineId: string, commandId: string): { exit?: ExitStatus } | undefined;
  /**
   * turns what a dead machine left on disk into a snapshot, so that a crash loses no file;
   * undefined when nothing is left of it
   */
  salvage(machineId: string): Promise<SnapshotInfo | undefined>;
  /** deletes what a stopped machine left on disk: its output journals and, if not captured, its files */
  forget(machineId: string): Promise<void>;
  /** output of a command of a machine that may be stopped already */
  output(machineId: string, commandId: string, options?: OutputOptions): AsyncIterable<OutputChunk>;
  /** outbound connections of a machine that may be stopped already; undefined when its log is not kept */
  egress(machineId: string): EgressJournal | undefined;

  snapshots: Snapshots;
  images: Images;
  drives: DriveVolumes;
  builds: Builds;
  imageBuilds: ImageBuilds;
  /** numbers that an operator watches */
  vitals(): Vitals;

  /** what is on the machine against what the ledger says, both ways, and stays so; empty when all is well */
  reconcile(): Promise<Discrepancy[]>;
}

/** What a host with machines has in use, and what it keeps free. */
export interface Vitals {
  /** that run, and that wait in the pool for somebody who wants one */
  machines: { running: number; hot: number; warm: number };
  /** in bytes; none where nothing watches the disk */
  disk?: { places: DiskVitals[]; isGrowthStopped: boolean };
  /** on the whole host, and from where on machines lose processes */
  openFiles: { now: number; most: number };
  /** bytes of the kernel's for TCP on the whole host, and from where on machines lose processes */
  tcpMemory: { now: number; most: number };
}

export interface DiskVitals {
  /** the disk of the data directory, or the file system of the store */
  place: "disk" | "store";
  free: number;
  reserve: number;
}

/** Processes that outlived an upgrade of the package. */
export interface Builds {
  others(): OtherBuilds;
  /** replaces them as far as no machine depends on them; what programs have open to the outside is cut off */
  replace(): Promise<ReplacedParts>;
}

/** the processes, by their numbers, that are not of this daemon's build */
export interface OtherBuilds {
  /** with the ids of the machines that run on it */
  launcher?: { pid: number; machines: string[] };
  /** needsLauncher: whether it can only be replaced with the launcher */
  egress?: { pid: number; needsLauncher: boolean };
}

/** numbers of processes that were replaced */
export type ReplacedParts = { [part in keyof OtherBuilds]: number };

export interface MachineSpec {
  /** the caller's name for the machine: [A-Za-z0-9_-], 1 to 64 characters, never used before */
  id: string;
  root: MachineRoot;
  limits?: Partial<Limits>;
  /** default allow-all */
  network?: MachineNetwork;
  /** whether programs inside may gain privileges through sudo; default true */
  sudo?: boolean;
  mounts?: MachineMount[];
  /** what its disk limit is for besides the machine: all machines together that ever had the same name here */
  line?: string;
}

/** a drive in the machine's file system */
export interface MachineMount {
  /** absolute; made when missing */
  path: string;
  drive: string;
  /** "snapshot": the drive as it is now, read-only */
  mode: "read-write" | "snapshot";
}

export type MachineRoot = { image: string } | { snapshot: string };

export interface Limits {
  /** processors' worth of time; may be a fraction */
  vcpus: number;
  memory: number;
  /** processes and threads */
  pids: number;
  /** bytes the writable layer may hold */
  disk: number;
}

export type NetworkMode = "deny-all" | "allow-all" | "custom";

/** what a machine may reach; the secrets of a policy are never written down */
export type MachineNetwork = "deny-all" | "allow-all" | CustomNetwork;

export interface Machine {
  readonly id: string;
  readonly spec: Required<Omit<MachineSpec, "limits" | "network" | "line">> &
    Pick<MachineSpec, "line"> & { limits: Limits; network: NetworkMode };
  readonly bootedAt: number;

  exec(spec: ExecSpec): Promise<Process>;
  /** a command that was started on this machine, running or not */
  process(commandId: string): Process | undefined;
  /** the commands that run now */
  processes(): Process[];
  output(commandId: string, options?: OutputOptions): AsyncIterable<OutputChunk>;

  /** the file system as this user sees it; default root */
  files(user?: string): Files;
  /** a byte stream to a TCP port that something inside listens on, for somebody outside: what it carries is counted */
  connect(port: number): Promise<Duplex>;

  /** in force when it resolves, also for what is open already; has to be set again after the daemon died */
  setNetwork(network: MachineNetwork): Promise<void>;
  setLimits(limits: Partial<Limits>): Promise<void>;
  usage(): Promise<Usage>;

  /** captures the file system without stopping the machine */
  snapshot(): Promise<SnapshotInfo>;
  /** ends every process; with `snapshot` the file system is kept, otherwise deleted */
  stop(options?: { snapshot?: boolean }): Promise<MachineEnd>;
  /** settles when the machine has ended, whoever ended it */
  readonly ended: Promise<MachineEnd>;
}

export interface MachineEnd {
  machineId: string;
  cause: "asked" | "out-of-memory" | "crash" | "host";
  /** a sentence that says more than the cause */
  reason: string;
  endedAt: number;
  snapshot?: SnapshotInfo;
  usage: Usage;
}

export interface ExecSpec {
  /** the caller's name for the command: [A-Za-z0-9_-], 1 to 64 characters, unique on its machine */
  id: string;
  /** program and arguments; no shell is involved */
  argv: string[];
  /** absolute; default the user's home */
  cwd?: string;
  /** added to a small default environment (PATH, HOME, USER, LANG …) */
  env?: Record<string, string>;
  /** a name of the sandbox's /etc/passwd or a number; default root */
  user?: string;
  /** names or numbers, besides those that /etc/group gives the user */
  groups?: string[];
  /** whether the caller will write to its standard input; otherwise it reads end-of-file */
  stdin?: boolean;
  pty?: { rows: number; columns: number };
  /** longest it may run, in ms */
  timeLimit?: number;
  /** how much output is kept, in bytes; the oldest is dropped first */
  outputLimit?: number;
}

export interface Process {
  readonly id: string;
  readonly pid: number;
  readonly startedAt: number;
  /** settles when the command has ended and all it printed before is in its journal */
  readonly exited: Promise<ExitStatus>;
  /** the status if it has ended */
  readonly exit: ExitStatus | undefined;
  /** offset of the end of what it has printed so far */
  readonly end: number;
  output(options?: OutputOptions): AsyncIterable<OutputChunk>;
  /** resolves once the command's pipe has taken the data */
  write(data: Uint8Array): Promise<void>;
  /**
   * writes at an offset of everything written before, without what the command was sent already; resolves with how many
   * bytes its pipe has taken in all: everything up to the end of the data, or less if the signal aborts first
   */
  feed(data: Uint8Array, offset: number, signal: AbortSignal): Promise<number>;
  /** how many bytes of standard input its pipe has taken */
  given(): Promise<number>;
  closeStdin(): Promise<void>;
  /** to the whole process group; with `alone`, to its first process only */
  signal(signal: number, options?: { alone?: boolean }): Promise<void>;
  resize(size: { rows: number; columns: number }): Promise<void>;
}

export interface OutputChunk {
  /** offset of the first byte, counted over all streams of the command */
  offset: number;
  stream: OutputStream;
  data: Uint8Array;
  /** bytes before this chunk that were asked for and are no longer kept */
  dropped?: number;
}

export interface OutputOptions {
  /** offset to start from; default 0 */
  from?: number;
  /** go on until the command has ended; default true */
  follow?: boolean;
  signal?: AbortSignal;
}

/** What was decided about a machine's attempts to reach the world, and how much it moved. */
export interface EgressJournal {
  /** after a position, oldest first; what was decided before the call is among them */
  lines(options: { after: number; limit: number }): Promise<{ lines: EgressLine[]; more: boolean }>;
  /** after a position, and those that come; ends when the machine has ended, or quietly when the signal aborts */
  follow(options: { after: number; signal?: AbortSignal }): AsyncIterable<EgressLine>;
  /** what connections have moved until now; a flow of datagrams is counted when it ends */
  hosts(): Promise<HostTraffic[]>;
  /** what connections from outside have moved until now */
  ports(): Promise<PortTraffic[]>;
}

/** File operations, each done inside the sandbox by a process of the given user. Paths are absolute. */
export interface Files {
  read(path: string, options?: { offset?: number; length?: number }): Readable;
  write(path: string, data: Uint8Array | AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<void>;
  /** with `links`, of a symlink also what it leads to */
  stat(path: string, options?: { follow?: boolean; links?: boolean }): Promise<FileInfo>;
  /** what is in a directory, and with `depth` in those below it: each before what is in it, no symlink followed */
  list(path: string, options?: { depth?: number; links?: boolean }): Promise<FileInfo[]>;
  mkdir(path: string, options?: { recursive?: boolean; mode?: number; owner?: FileOwner }): Promise<void>;
  /** with `parents`, the directories above its new place are made; they are the owner's */
  move(from: string, to: string, options?: { parents?: boolean; owner?: FileOwner }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  chmod(path: string, mode: number): Promise<void>;
  chown(path: string, uid: number, gid: number): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  /** changes below a path from the moment the promise is fulfilled; ends when the signal aborts */
  watch(path: string, options?: { recursive?: boolean; signal?: AbortSignal }): Promise<AsyncIterable<FileChange>>;
  /** unpacks a tar stream (gzip or not) below a directory, which is made when missing */
  extract(directory: string, tar: AsyncIterable<Uint8Array>, options?: ExtractOptions): Promise<void>;
  /** packs a file or directory; names inside are relative to it */
  archive(path: string, options?: { gzip?: boolean }): Readable;
}

export interface ExtractOptions {
  /** also where only root may write; what is made belongs to the user all the same. Default false */
  anywhere?: boolean;
  /** as root: whom everything that is made belongs to; "archived": whom the archive says */
  owner?: { uid: number; gid: number } | "archived";
  /** with `owner`: permission bits of everything; default what the archive says */
  mode?: number;
  /** with `owner`: what the one file of the archive will be called */
  as?: string;
}

export interface WriteOptions {
  /** permission bits of a file that is made; default 0o644 */
  mode?: number;
  /** make missing directories on the way; default false */
  parents?: boolean;
  append?: boolean;
  /** put a new file in the place of whatever is there, but a directory, instead of writing through it */
  replace?: boolean;
  /** whom the file, and directories that are made on the way, belong to; only root may give files away */
  owner?: FileOwner;
}

export interface FileOwner {
  uid: number;
  gid: number;
}

export type FileType = "file" | "directory" | "symlink" | "fifo" | "socket" | "device";

export interface FileInfo {
  name: string;
  path: string;
  type: FileType;
  size: number;
  /** permission bits */
  mode: number;
  uid: number;
  gid: number;
  modifiedAt: number;
  /** what a symlink points to */
  target?: string;
  /** what a symlink leads to, where that was asked for and is there */
  targetType?: FileType;
}

export interface FileChange {
  kind: "created" | "written" | "removed" | "moved" | "metadata";
  path: string;
  /** for `moved`: where it is now, when that is known */
  to?: string;
  directory: boolean;
}

export interface Snapshots {
  get(id: string): Promise<SnapshotInfo | undefined>;
  /** as get(), once its size is certain: before its files are on the disk it is what was written into them */
  settled(id: string): Promise<SnapshotInfo | undefined>;
  list(): Promise<SnapshotInfo[]>;
  /** finds those again of these that are not in the list, and whose files are there all the same; returns their ids */
  restore(ids: string[]): Promise<string[]>;
  /** its layers are deleted once nothing else needs them */
  delete(id: string): Promise<void>;
  /** one file (tar, zstd) with every layer above the image */
  export(id: string): Promise<Readable>;
  import(file: AsyncIterable<Uint8Array>): Promise<SnapshotInfo>;
  /** deletes layers that nothing needs; returns their ids */
  collect(): Promise<string[]>;
}

export interface SnapshotInfo {
  /** the runtime's own id */
  id: string;
  /** what its lowest layers are */
  image: string;
  /** layers above the image, topmost first */
  layers: string[];
  size: number;
  createdAt: number;
}

export interface Images {
  /** a team's own image of this name, or else the host's; without a team, the host's by name or any by its key */
  get(name: string, team?: string): Promise<ImageInfo | undefined>;
  /** the host's and a team's; without a team, all */
  list(team?: string): Promise<ImageInfo[]>;
  /** the host's image of this name, or by key */
  delete(nameOrKey: string): Promise<void>;
  /**
   * brings an image of the host's in from a registry, or what is new of it, once for all who ask meanwhile; undefined
   * where the name is none that callers may pull
   */
  pull?: ((name: string, team: string) => Promise<ImageInfo | undefined>) | undefined;
  /** images by further names for them, in which `*` stands for any text */
  aliases?(): Promise<Record<string, string>>;
}

export interface ImageInfo {
  name: string;
  /** the team that it belongs to; one of the host is there for all teams */
  owner?: string | undefined;
  /** of its content, as 64 hexadecimal digits */
  digest?: string | undefined;
  /** topmost first */
  layers: string[];
  env: Record<string, string>;
  user: string;
  cwd: string;
  createdAt: number;
  /** what else its maker says of it; images of older versions and the host's own have none */
  config?: ImageConfig | undefined;
  /** there where it was pulled from a registry */
  source?: ImageSource | undefined;
  /** its layers as its maker published them, lowest first */
  parts?: ImagePart[] | undefined;
  /** PEMs that it was made to believe besides its own, as HostRoots has them; an image that was brought in has none */
  roots?: string | undefined;
}

/** Durable volumes that machines mount; kept apart from any machine's files. */
export interface DriveVolumes {
  create(id: string, options: { maxSize: number }): Promise<void>;
  /** a drive with all that another one holds at this moment; neither sees what is written to the other later */
  copy(from: string, id: string, options: { maxSize: number }): Promise<void>;
  /** what is in it already stays, also when that is more */
  resize(id: string, options: { maxSize: number }): Promise<void>;
  /** gone for good; no error when there is none */
  delete(id: string): Promise<void>;
  list(): Promise<string[]>;
}

export interface Usage {
  /** time on processors, in ms */
  cpuTime: number;
  memory: number;
  /** bytes of it that hold files, and are given up when programs need them; undefined once the machine has ended */
  cache?: number;
  peakMemory: number;
  processes: number;
  /** bytes that came in and went out */
  network: { received: number; sent: number };
  /** bytes in the writable layer; undefined where it costs a walk */
  disk?: number;
  /** processes the kernel killed because the machine's memory was used up */
  outOfMemoryKills: number;
}

export interface Discrepancy {
  kind: "cgroup" | "mount" | "process" | "directory" | "socket" | "namespace";
  name: string;
  problem: "not in the ledger" | "gone";
}
