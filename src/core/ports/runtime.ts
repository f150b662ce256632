/**
 * What the core needs of a machine: the interface that every runtime implements and that
 * test/conformance/runtime.ts checks. All times are in milliseconds, all sizes in bytes.
 */

import type { Duplex, Readable } from "node:stream";
import type { EgressLogLine } from "../../protocols/egress-log.ts";
import type { ExitStatus, OutputStream } from "../../protocols/output-journal.ts";
import type { EgressLine, HostTraffic, PortTraffic } from "../network/egress-log.ts";
import type { CustomNetwork } from "../network/network-policy.ts";
import type { ImageBuilds } from "./image-builds.ts";
import type { Images } from "./images.ts";
import type { TreeDiffs } from "./tree-diff.ts";
import type { Vitals } from "./vitals.ts";

export type { ExitStatus, OutputStream } from "../../protocols/output-journal.ts";

/** Makes machines, keeps the file systems they boot from, and finds both again after the daemon died. */
export interface Runtime {
  /** starts or finds the launcher, undoes half-finished work, fills the pool */
  open(): Promise<void>;
  /** releases everything without stopping a machine */
  close(): Promise<void>;

  /** throws "no-room" while the host's disk is too full to boot another machine */
  requireRoom(): void;
  boot(spec: MachineSpec): Promise<Machine>;
  /** machines that are alive now, found at open() or booted since */
  machines(): Machine[];
  machine(id: string): Machine | undefined;
  /** number of machines found at open() with damaged records, so that only their files are known */
  damaged(): number;
  /** calls the listener whenever data was lost while the daemon runs: machines have ended, and snapshots may be suspects */
  onLoss(listener: () => void): void;
  /** the ends of all machines that are not forgotten yet */
  ends(): MachineEnd[];
  /** how a machine ended, unless it is forgotten */
  end(machineId: string): MachineEnd | undefined;
  /** a command's exit from its journal, even on a stopped machine */
  command(machineId: string, commandId: string): { exit?: ExitStatus } | undefined;
  /**
   * turns the files that a dead machine left on disk into a snapshot, so that a crash loses no file; undefined if
   * nothing is left
   */
  salvage(machineId: string): Promise<SnapshotInfo | undefined>;
  /** deletes what a stopped machine left on disk: its output journals and, if not captured, its files */
  forget(machineId: string): Promise<void>;
  /** output of a command of a machine, even of a stopped one */
  output(machineId: string, commandId: string, options?: OutputOptions): AsyncIterable<OutputChunk>;
  /** outbound connections of a machine, even of a stopped one; undefined if its log is not kept */
  egress(machineId: string): EgressJournal | undefined;

  snapshots: Snapshots;
  images: Images;
  drives: DriveVolumes;
  builds: Builds;
  imageBuilds: ImageBuilds;
  /** numbers that an operator watches */
  vitals(): Vitals;

  /** lasting differences, both ways, between the ledger and the host; empty if there are none */
  reconcile(): Promise<Discrepancy[]>;
}

/** Processes that outlived an upgrade of the package. */
export interface Builds {
  others(): OtherBuilds;
  /** replaces them if no machine depends on them; cuts off open connections to the outside */
  replace(): Promise<ReplacedParts>;
}

/** process ids of processes that are not from this daemon's build */
export interface OtherBuilds {
  /** with the ids of the machines that run on it */
  launcher?: { pid: number; machines: string[] };
  /** needsLauncher: whether it can only be replaced with the launcher */
  egress?: { pid: number; needsLauncher: boolean };
}

/** process ids of replaced processes */
export type ReplacedParts = { [part in keyof OtherBuilds]: number };

export interface MachineSpec {
  /** the caller's id for the machine: [A-Za-z0-9_-], 1 to 64 characters, never used before */
  id: string;
  root: MachineRoot;
  limits?: Partial<Limits>;
  /** default allow-all */
  network?: MachineNetwork;
  /** whether programs inside may gain privileges through sudo; default true */
  sudo?: boolean;
  mounts?: MachineMount[];
  /** name of a group of machines, past and present, that share the disk limit */
  line?: string;
  /** what its files need before anything runs in it; for a machine of an image, without mounts */
  setup?: MachineSetup;
}

/** A change of a machine's files that other machines of the same image need too, so a pool may make it in advance. */
export interface MachineSetup {
  /** the same for the same changes */
  key: string;
  apply(files: Files): Promise<void>;
}

/** a drive in the machine's file system */
export interface MachineMount {
  /** absolute; made when missing */
  path: string;
  drive: string;
  /** "snapshot": the drive's current contents, read-only */
  mode: "read-write" | "snapshot";
}

export type MachineRoot = { image: string } | { snapshot: string };

export interface Limits {
  /** processor time, in processors; may be a fraction */
  vcpus: number;
  memory: number;
  /** processes and threads */
  pids: number;
  /** bytes the writable layer may hold */
  disk: number;
}

export type NetworkMode = "deny-all" | "allow-all" | "custom";

/** what a machine may reach; the secrets of a policy are never stored */
export type MachineNetwork = "deny-all" | "allow-all" | CustomNetwork;

export interface Machine {
  readonly id: string;
  readonly spec: Required<Omit<MachineSpec, "limits" | "network" | "line" | "setup">> &
    Pick<MachineSpec, "line"> & { limits: Limits; network: NetworkMode };
  readonly bootedAt: number;
  /** finds its image in `images`, in the version that it booted from; unset if it is unknown */
  readonly image?: string | undefined;

  exec(spec: ExecSpec): Promise<Process>;
  /** a command that was started on this machine, running or not */
  process(commandId: string): Process | undefined;
  /** the commands that run now */
  processes(): Process[];

  /** the file system as this user; default root */
  files(user?: string): Files;
  /** a byte stream to a TCP port inside, for a client outside; its traffic is counted */
  connect(port: number): Promise<Duplex>;

  /** takes effect when it resolves, also for open connections; must be set again after the daemon died */
  setNetwork(network: MachineNetwork): Promise<void>;
  usage(): Promise<Usage>;

  /** captures the file system without stopping the machine, paused or not */
  snapshot(): Promise<SnapshotInfo>;
  /**
   * stops every process where it is, keeps the memory, and captures the file system. Requests and streams that are open
   * fail with `conflict`, and so does everything but snapshot(), setNetwork(), usage(), resume() and stop(). Machines that
   * an earlier daemon has paused are found paused. Throws `unsupported` where the host cannot do this
   */
  pause(): Promise<SnapshotInfo>;
  /** every process goes on where it was; commands are followed as before. No error for a machine that is not paused */
  resume(): Promise<void>;
  readonly isPaused: boolean;
  /** aborts when the machine is paused; another one after each resume */
  readonly pausing: AbortSignal;
  /** ends every process; with `snapshot` keeps the file system, otherwise deletes it */
  stop(options?: { snapshot?: boolean }): Promise<MachineEnd>;
  /** settles when the machine has ended, for any reason */
  readonly ended: Promise<MachineEnd>;
}

export interface MachineEnd {
  machineId: string;
  cause: "asked" | "out-of-memory" | "crash" | "host";
  /** a sentence that explains the cause */
  reason: string;
  endedAt: number;
  snapshot?: SnapshotInfo;
  usage: Usage;
}

export interface ExecSpec {
  /** the caller's id for the command: [A-Za-z0-9_-], 1 to 64 characters, unique on its machine */
  id: string;
  /** program and arguments; no shell is involved */
  argv: string[];
  /** absolute; default the user's home */
  cwd?: string;
  /** added to a small default environment (PATH, HOME, USER, LANG …) */
  env?: Record<string, string>;
  /** a name in the sandbox's /etc/passwd or a number; default root */
  user?: string;
  /** names or numbers of groups, besides the user's own in /etc/group */
  groups?: string[];
  /** whether the caller will write to its standard input; otherwise it reads end-of-file */
  stdin?: boolean;
  pty?: { rows: number; columns: number };
  /** longest it may run, in ms */
  timeLimit?: number;
  /** most output kept, in bytes; then the command waits for its readers, and without any the oldest is dropped */
  outputLimit?: number;
}

export interface Process {
  readonly id: string;
  readonly pid: number;
  readonly startedAt: number;
  /** settles when the command has ended and its journal has all its output */
  readonly exited: Promise<ExitStatus>;
  /** the status if it has ended */
  readonly exit: ExitStatus | undefined;
  /** offset of the end of its output so far */
  readonly end: number;
  output(options?: OutputOptions): AsyncIterable<OutputChunk>;
  /** resolves once the command's pipe has accepted the data */
  write(data: Uint8Array): Promise<void>;
  /**
   * writes at an offset of all input, skipping what was sent already; resolves with the bytes that the pipe has
   * accepted in total: up to the end of the data, or less if the signal aborts first
   */
  feed(data: Uint8Array, offset: number, signal: AbortSignal): Promise<number>;
  /** bytes of standard input that the pipe has accepted */
  given(): Promise<number>;
  closeStdin(): Promise<void>;
  /** signals the whole process group; with `alone`, only its first process */
  signal(signal: number, options?: { alone?: boolean }): Promise<void>;
  resize(size: { rows: number; columns: number }): Promise<void>;
}

export interface OutputChunk {
  /** offset of the first byte, counted over all streams of the command */
  offset: number;
  stream: OutputStream;
  data: Uint8Array;
  /** requested bytes before this chunk that are no longer kept */
  dropped?: number;
}

export interface OutputOptions {
  /** offset to start from; default 0 */
  from?: number;
  /** whether to continue until the command has ended; default true */
  follow?: boolean;
  signal?: AbortSignal;
}

/** A machine's outbound connections, whether each was allowed, and their traffic. */
export interface EgressJournal {
  /** lines after a position, oldest first; includes every decision made before the call */
  lines(options: { after: number; limit: number }): Promise<{ lines: EgressLine[]; more: boolean }>;
  /** lines after a position and new ones; ends when the machine has ended or the signal aborts, without an error */
  follow(options: { after: number; signal?: AbortSignal }): AsyncIterable<EgressLine>;
  /** lines that were written up to about a second ago, newest first; `refused`: only refused connections */
  newest(options: {
    limit: number;
    refused: boolean;
    isWanted: (line: EgressLogLine) => boolean;
  }): Promise<EgressLogLine[]>;
  /** when a line was last written; undefined if there is none */
  changedAt(): Promise<number | undefined>;
  /** traffic so far; a flow of datagrams is counted when it ends */
  hosts(): Promise<HostTraffic[]>;
  /** traffic of connections from outside so far */
  ports(): Promise<PortTraffic[]>;
}

export interface ListOptions {
  depth?: number;
  links?: boolean;
  most?: number;
  attributes?: string;
}

/** File operations, each run inside the sandbox by a process of the given user. Paths are absolute. */
export interface Files {
  read(path: string, options?: { offset?: number; length?: number }): Readable;
  /** a file's info, and a function that reads its bytes; a small file is read already */
  opened(path: string): Promise<{ file: FileInfo; bytes: (range?: { offset: number; length: number }) => Readable }>;
  write(path: string, data: Uint8Array | AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<void>;
  /** with `links`, also the type of a symlink's target; with `attributes`, also those of a regular file */
  stat(path: string, options?: { follow?: boolean; links?: boolean; attributes?: boolean }): Promise<FileInfo>;
  /**
   * what is in a directory, down to `depth`, parents first, no symlink followed; `limit` if it is more than `most`. With
   * `attributes`, regular files have their extended attributes with this prefix
   */
  list(path: string, options?: ListOptions): Promise<FileInfo[]>;
  mkdir(path: string, options?: { recursive?: boolean; mode?: number; owner?: FileOwner }): Promise<void>;
  /** with `parents`, makes missing directories at the destination, with this owner */
  move(from: string, to: string, options?: { parents?: boolean; owner?: FileOwner }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
  chmod(path: string, mode: number): Promise<void>;
  chown(path: string, uid: number, gid: number): Promise<void>;
  /** changes below a path from the moment the promise resolves; ends when the signal aborts */
  watch(path: string, options?: { recursive?: boolean; signal?: AbortSignal }): Promise<AsyncIterable<FileChange>>;
  /** unpacks a tar stream (gzip or not) below a directory, which is made if missing */
  extract(directory: string, tar: AsyncIterable<Uint8Array>, options?: ExtractOptions): Promise<void>;
  /** several operations with one process inside, which takes less time; each answer comes after those before it */
  together<T>(use: (files: Files) => Promise<T>): Promise<T>;
  /**
   * packs a file or directory, with `attributes` also the extended ones; names inside are relative to it. Together with
   * these, `skipsMounts` leaves out what is mounted below it
   */
  archive(path: string, options?: { gzip?: boolean; attributes?: boolean; skipsMounts?: boolean }): Readable;
}

export interface ExtractOptions {
  /** whether to write where only root may, too; new files still belong to the user. Default false */
  anywhere?: boolean;
  /** as root: owner of everything that is unpacked; "archived": the owners in the archive */
  owner?: { uid: number; gid: number } | "archived";
  /** with `owner`: whether the extended attributes in the archive are restored; default false */
  attributes?: boolean;
  /** with `owner`: permission bits of everything; default those in the archive */
  mode?: number;
  /** with `owner`: new name of the archive's only file */
  as?: string;
}

export interface WriteOptions {
  /** permission bits of a new file; default 0o644 */
  mode?: number;
  /** whether to make missing parent directories; default false */
  parents?: boolean;
  append?: boolean;
  /** whether to replace what is there, except a directory, by a new file instead of writing into it */
  replace?: boolean;
  /** owner of the file and of new parent directories; only root may set it */
  owner?: FileOwner;
  /** extended attributes: the file has these afterwards, and no others with the prefix */
  attributes?: { prefix: string; values: Record<string, string> };
}

export type FileOwner = { uid: number; gid: number };

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
  /** the last read, as exact as the file system keeps it */
  accessedAt?: number;
  /** the last change of the file or of its metadata */
  changedAt?: number;
  /** the path that a symlink contains */
  target?: string;
  /** type of a symlink's target, if requested and if it exists */
  targetType?: FileType;
  /** extended attributes, if requested */
  attributes?: Record<string, string>;
}

export interface FileChange {
  kind: "created" | "written" | "removed" | "moved" | "metadata";
  path: string;
  /** for `moved`: the new path, if known */
  to?: string;
  directory: boolean;
}

export interface Snapshots extends TreeDiffs {
  get(id: string): Promise<SnapshotInfo | undefined>;
  /** like get(), once the size is final: until its files are on disk, the size counts the bytes written */
  settled(id: string): Promise<SnapshotInfo | undefined>;
  list(): Promise<SnapshotInfo[]>;
  /** restores snapshots that are missing from the list but whose files exist; returns their ids */
  restore(ids: string[]): Promise<string[]>;
  /** ids of snapshots whose files may be incomplete: the disk failed, or the host did, before they were flushed */
  suspects(): Promise<string[]>;
  /** a suspect counts as complete from now on, because there is nothing better */
  trust(id: string): Promise<void>;
  /** deletes its layers once nothing else needs them */
  delete(id: string): Promise<void>;
  /** deletes layers that nothing needs; returns their ids */
  collect(): Promise<string[]>;
}

export interface SnapshotInfo {
  /** the runtime's own id */
  id: string;
  /** the image with its lowest layers */
  image: string;
  /** layers above the image, topmost first */
  layers: string[];
  size: number;
  createdAt: number;
}

/** Durable volumes that machines mount; kept apart from any machine's files. */
export interface DriveVolumes {
  create(id: string, options: { maxSize: number }): Promise<void>;
  /** creates a drive with the current contents of another; later writes to either do not affect the other */
  copy(from: string, id: string, options: { maxSize: number }): Promise<void>;
  /** existing contents stay, even if they are larger */
  resize(id: string, options: { maxSize: number }): Promise<void>;
  /** resolves when the disk has what was written to it, where a stop waits for that too */
  sync?(id: string): Promise<void>;
  /** gone for good; no error when there is none */
  delete(id: string): Promise<void>;
  list(): Promise<string[]>;
}

export interface Usage {
  /** processor time in ms */
  cpuTime: number;
  memory: number;
  /** bytes of it that are file cache, which the kernel can reclaim; undefined once the machine has ended */
  cache?: number;
  peakMemory: number;
  processes: number;
  /** bytes received and sent */
  network: { received: number; sent: number };
  /** bytes in the writable layer; undefined if that needs a walk over the files */
  disk?: number;
  /** processes that the kernel killed because the machine ran out of memory */
  outOfMemoryKills: number;
}

export interface Discrepancy {
  kind: "cgroup" | "mount" | "process" | "directory" | "socket" | "namespace";
  name: string;
  problem: "not in the ledger" | "gone";
}
