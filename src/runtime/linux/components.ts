/** The components that a Linux runtime is made of, opened in the order in which they need each other. */

import { chmodSync, realpathSync, renameSync, rmSync, unwatchFile, watchFile, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { makeFolderSync } from "../../base/files/folders.ts";
import { fewRandomBytes } from "../../base/random-bytes.ts";
import type { ImageConventions } from "../../core/model/conventions.ts";
import { messageOf } from "../../core/model/errors.ts";
import type { EgressSettings } from "../../core/ports/egress-settings.ts";
import type { Limits } from "../../core/ports/runtime.ts";
import { Launcher } from "./guest-wire/launcher.ts";
import { Builds } from "./host/builds.ts";
import { type CgroupHost, makeParent, thisHostsCgroups } from "./host/cgroup.ts";
import { FilterWatch } from "./host/filter-watch.ts";
import { HostMasks, placeOfMasks } from "./host/host-masks.ts";
import { KernelMemoryWatch } from "./host/kernel-memory-watch.ts";
import { LauncherLog, type LogError, type Warn } from "./host/launcher-log.ts";
import { Ledger } from "./host/ledger.ts";
import { OpenFilesWatch } from "./host/open-files-watch.ts";
import { type PeriodicTask, runEvery } from "./host/periodic-task.ts";
import { ProcessorWatch } from "./host/processor-watch.ts";
import { TcpMemoryWatch } from "./host/tcp-memory-watch.ts";
import { TcpSocketWatch } from "./host/tcp-socket-watch.ts";
import { ImageWatch } from "./images/image-watch.ts";
import { ImageStore } from "./images/images.ts";
import { sizesOf } from "./images/sizes.ts";
import { Capturer } from "./layers/capture.ts";
import { LayerStore } from "./layers/layers.ts";
import { SnapshotStore } from "./layers/snapshots.ts";
import { requireSameRun } from "./machines/adopt.ts";
import { machineNeeds } from "./machines/machine-needs.ts";
import type { MachineRegistry } from "./machines/machine-registry.ts";
import { egressUser, netdUser, type OrphanPlan, type Places } from "./machines/plan.ts";
import { Pool, type PoolSize } from "./machines/pool.ts";
import { MachinePreparer } from "./machines/prepared-machine.ts";
import { hotRoot } from "./machines/roots.ts";
import { egressCache, makeEgressCache } from "./network/egress-cache.ts";
import { EgressLink, type EgressLinkOptions } from "./network/egress-link.ts";
import { egressView, realCommand } from "./network/egress-view.ts";
import { PortMeters } from "./network/port-meters.ts";
import { pruneDownloads } from "./registry/downloads.ts";
import { Puller, type PullerOptions } from "./registry/puller.ts";
import type { DiskRoom } from "./storage/disk-room.ts";
import { DiskWatch } from "./storage/disk-watch.ts";
import { DriveStore } from "./storage/drives.ts";
import { GrowthStop } from "./storage/growth-stop.ts";
import { isMounted, isReadOnly } from "./storage/storage.ts";
import { StoreHealth } from "./storage/store-health.ts";
import { Volumes } from "./storage/volumes.ts";
import { WriteMonitor } from "./storage/write-monitor.ts";

export interface Components {
  machines: MachineRegistry;
  /** path of the store */
  store: string;
  cgroups: CgroupHost;
  cgroupParents: string[];
  launcher: Launcher;
  egress: EgressLink;
  ports: PortMeters;
  ledger: Ledger;
  volumes: Volumes;
  masks: HostMasks;
  layers: LayerStore;
  images: ImageStore;
  snapshots: SnapshotStore;
  drives: DriveStore;
  maker: MachinePreparer;
  capturer: Capturer;
  warn: Warn;
  /** how much output is kept of each command and of all commands of a machine, in bytes */
  output: { outputLimit: number; journalLimit: number };
  /** undefined where nothing watches the room on the disk */
  room: DiskRoom | undefined;
  pool: Pool;
  builds: Builds;
  countsTask: PeriodicTask;
  diskWatch: DiskWatch;
  imageWatch: ImageWatch;
  filesWatch: OpenFilesWatch;
  filterWatch: FilterWatch;
  processorWatch: ProcessorWatch;
  kernelMemoryWatch: KernelMemoryWatch;
  tcpWatch: TcpMemoryWatch;
  tcpSocketWatch: TcpSocketWatch;
  growthStop: GrowthStop | undefined;
  /** whether the runtime has let go of these components: it may have mounted its store again since, with others */
  isClosed: boolean;
  health: StoreHealth;
  /** undefined where it cannot be mounted */
  monitor: WriteMonitor | undefined;
}

/** what machines may use of the host besides their limits */
export interface Bounds {
  /** how much output of each command is kept, in bytes */
  outputLimit?: number;
  /** how much output of all commands of a machine is kept, in bytes */
  journalLimit?: number;
  /** open files on the host from which on machines lose processes; default half of what the kernel allows */
  maxOpenFiles?: number;
  /** bytes of compiled filters on the host from which on machines lose processes; default half of what the kernel allows */
  maxFilterBytes?: number;
  /** bytes of the kernel's own memory from which on machines lose processes; default an eighth of the host's memory */
  maxKernelMemory?: number;
  /** pages of TCP on the host from which on machines lose processes; default half of where the kernel begins to save */
  maxTcpPages?: number;
  /** sockets of TCP on the host from which on machines lose processes; default as many as fill a sixteenth of its memory */
  maxTcpSockets?: number;
  /** of these, those whose program has closed them; default half of what the kernel allows */
  maxTcpOrphans?: number;
}

/** what an acknowledged stop or snapshot survives: the loss of power, or of the daemon's process only */
export type Durability = "power" | "process";

export interface ComponentsOptions extends Bounds {
  dataDir: string;
  guest: string;
  egress: string[];
  egressEnv?: Record<string, string>;
  egressSettings?: () => EgressSettings;
  pool: PoolSize;
  limits: Limits;
  durability: Durability;
  /** what images are fitted out with */
  conventions?: ImageConventions;
  /** where images are pulled from that callers name */
  registries?: PullerOptions | undefined;
  /** which boot of the host this is */
  bootId: string;
  logError: LogError;
  warn: Warn;
  places: Places;
  /** whether the store has subvolumes */
  hasVolumes: boolean;
  /** whether the store is a file system of its own, with nothing else in it */
  isOwnStore: boolean;
  /** whether the store was not mounted before, or was mounted anew because it failed: data not flushed may be lost */
  isNewlyMounted: boolean;
  room?: DiskRoom;
  machines: MachineRegistry;
  defaultImage: string;
}

export async function openComponents(options: ComponentsOptions): Promise<Components> {
  const { machines, places, limits, outputLimit = 64 << 20, journalLimit = 256 << 20, logError, warn } = options;
  const { store } = places;
  /** set once all of them are open */
  let opened: Components | undefined;
  const cgroups = thisHostsCgroups();
  await requireSameRun(places, cgroups, options.bootId);
  const cgroupParents = makeParent(cgroups, places.cgroupParent);
  const settings = options.egressSettings?.();
  if (settings) leaveSettings(places, settings);
  // The egress process runs as another user, which has to find its folders in there.
  makeFolderSync(places.egressLogs);
  chmodSync(places.egressLogs, 0o711);
  const command = realCommand(options.egress);
  const cache = egressCache(command);
  const cached = cache === undefined ? [] : [cache];
  // Where the package cannot be written to, the process works without it.
  if (cache === undefined) void makeEgressCache(command).catch(() => undefined);
  const launcherLog = new LauncherLog(join(places.run, "launcher.log"), { logError, warn });
  const launcher = await Launcher.open({
    run: places.run,
    binary: options.guest,
    egress: command,
    env: {
      PATH: process.env.PATH ?? "",
      SANDKEEP_STORE: realpathSync(store),
      SANDKEEP_NETD_UID: String(netdUser),
      SANDKEEP_EGRESS_UID: String(egressUser),
      SANDKEEP_EGRESS_VIEW: [...egressView(command), ...cached].join("\n"),
      ...(cache !== undefined && { NODE_COMPILE_CACHE: cache }),
      SANDKEEP_EGRESS_SETTINGS: places.egressSettings,
      SANDKEEP_EGRESS_SOCKET: places.egress,
      SANDKEEP_EGRESS_LOGS: places.egressLogs,
      ...options.egressEnv,
    },
    orphans: () => (opened ? orphans(opened) : []),
    died: (sentence) => warn(sentence, { process: "launcher" }),
  });
  await using undo = new AsyncDisposableStack();
  undo.defer(() => leave(launcher));
  const commandOf: EgressLinkOptions["commandOf"] = (name, ancestry) => {
    for (const machine of machines.live.values()) if (machine.plan.name === name) return machine.commandOf(ancestry);
    return undefined;
  };
  const egress = new EgressLink({ socket: places.egress, settings, logError, commandOf });
  egress.open();
  egress.closing(() => launcherLog.close());
  undo.defer(async () => egress.close());
  if (options.egressSettings) keepConfigured(egress, places, options.egressSettings, logError);
  const ports = new PortMeters({ logError });
  if (options.hasVolumes) await launcher.enableVolumeLimits(store);
  forgetCounts(launcher, options);
  const countsTask = runEvery(forgetEvery, () => forgetCounts(launcher, options), logError);
  undo.defer(async () => countsTask.close());
  const ledger = new Ledger(join(options.dataDir, "ledger.jsonl"));
  const volumes = new Volumes(launcher, options.hasVolumes);
  const { former, ...place } = placeOfMasks(options.dataDir, store, options.hasVolumes);
  // Nothing that runs can have them below it.
  if (former !== undefined && options.isNewlyMounted) rmSync(former, { recursive: true, force: true });
  const masks = new HostMasks({
    ...place,
    filesAt: (directory) => launcher.filesAt(directory),
    bootId: options.bootId,
    // Machines that are booted already keep the old masks.
    changed: () => pool.fill(),
    logError,
  });
  await masks.open();
  undo.defer(() => masks.close());
  const monitor = await openMonitor(options);
  undo.defer(async () => monitor?.close());
  const health = new StoreHealth({
    monitor,
    sync: () => launcher.sync(store),
    isReadOnly: () => isReadOnly(store),
  });
  const requireWhole = () => health.requireWhole();
  const layers = new LayerStore(store, launcher, {
    requireWhole,
    volumes: options.hasVolumes,
    bootId: options.bootId,
    shared: join(options.dataDir, "shared"),
    masks,
  });
  const images = new ImageStore(store);
  const { registries, conventions, room: disk } = options;
  if (registries && conventions) {
    const requireRoom = (what: string) => disk?.require(what);
    new Puller({ store, layers, images, conventions, requireRoom }, registries).serve();
  }
  images.sizes = (image, team) => sizesOf({ images, layers }, image, team);
  const snapshots = new SnapshotStore({
    ...{ store, layers, images },
    machines: async () => {
      const needs = await machineNeeds(layers, machines.all());
      return { ...needs, images: [...needs.images, ...pool.references] };
    },
    live: (id) => machines.live.get(id),
  });
  images.prune = async () => {
    await pruneDownloads(join(store, "downloads"));
    return (await snapshots.collect()).length;
  };
  const sync = async (volume: string) => {
    if (options.durability === "power") await health.flush(() => launcher.sync(volume));
    await requireWhole();
  };
  const drives = new DriveStore(store, volumes, logError, (what) => options.room?.require(what), sync);
  await drives.open();
  await Promise.all([layers.open(), images.open()]);
  await snapshots.open(options);
  const newName = () => `m${fewRandomBytes(8).toString("hex")}`;
  const hostCpus = cpus().length;
  const output = { outputLimit, journalLimit };
  const maker = new MachinePreparer({
    places,
    cgroups,
    launcher,
    ledger,
    volumes,
    layers,
    ...output,
    newName,
    hostCpus,
  });
  const capturer = new Capturer({
    layers,
    snapshots,
    volumes,
    durable: options.durability === "power",
    isReadOnly: () => health.hasFailed,
    requireWhole,
  });
  const pool = new Pool({
    size: options.pool,
    maker,
    network: "allow-all",
    limits,
    image: options.defaultImage,
    root: (image) => hotRoot({ images, layers, snapshots }, image, limits),
    logError,
  });
  const builds = new Builds({
    launcher,
    pool,
    guest: options.guest,
    egress: command,
    machines: () => [...machines.live.keys()],
    configured: async () => {
      if (options.egressSettings) await egress.configure(options.egressSettings());
    },
    logError,
    warn,
  });
  const diskWatch = new DiskWatch({ launcher, volumes, machines: () => machines.live.values(), logError });
  const filesWatch = new OpenFilesWatch({
    machines: () => machines.live.values(),
    logError,
    ...(options.maxOpenFiles !== undefined && { most: options.maxOpenFiles }),
  });
  const filterWatch = new FilterWatch({
    machines: () => machines.live.values(),
    logError,
    ...(options.maxFilterBytes !== undefined && { most: options.maxFilterBytes }),
  });
  const kernelMemoryWatch = new KernelMemoryWatch({
    machines: () => machines.live.values(),
    logError,
    ...(options.maxKernelMemory !== undefined && { most: options.maxKernelMemory }),
  });
  const tcpWatch = new TcpMemoryWatch({
    machines: () => machines.live.values(),
    logError,
    ...(options.maxTcpPages !== undefined && { most: options.maxTcpPages }),
  });
  const tcpSocketWatch = new TcpSocketWatch({
    machines: () => machines.live.values(),
    logError,
    ...(options.maxTcpSockets !== undefined && { most: options.maxTcpSockets }),
    ...(options.maxTcpOrphans !== undefined && { mostOrphans: options.maxTcpOrphans }),
  });
  const { room } = options;
  const growthStop =
    room &&
    new GrowthStop({
      room,
      launcher,
      volumes,
      machines: () => machines.live.values(),
      store,
      sync: () => health.flush(),
      isOwnStore: options.isOwnStore,
      note: join(places.run, "growth-stopped"),
      resumed: () => pool.fill(0),
      logError,
    });
  undo.move();
  const imagesChanged = async () => {
    await pool.refresh().catch(logError);
    await snapshots.collect();
  };
  opened = {
    machines,
    store,
    cgroups,
    cgroupParents,
    launcher,
    egress,
    ports,
    ledger,
    volumes,
    masks,
    layers,
    images,
    snapshots,
    drives,
    maker,
    capturer,
    warn,
    output,
    room,
    pool,
    builds,
    countsTask,
    diskWatch,
    filesWatch,
    filterWatch,
    processorWatch: new ProcessorWatch(logError),
    kernelMemoryWatch,
    tcpWatch,
    tcpSocketWatch,
    growthStop,
    isClosed: false,
    health,
    monitor,
    imageWatch: new ImageWatch(images.folder, imagesChanged, logError),
  };
  return opened;
}

/** where the overlay cannot be mounted, as in a full store, every capture flushes the store instead */
async function openMonitor({
  places: { store },
  isNewlyMounted,
  warn,
}: ComponentsOptions): Promise<WriteMonitor | undefined> {
  try {
    return await WriteMonitor.open({ store, isMounted, isUnused: isNewlyMounted });
  } catch (error) {
    warn(`Cannot watch what the kernel writes to "${store}", so stops and snapshots take longer: ${messageOf(error)}`);
    return undefined;
  }
}

/** what a new launcher takes over; prepared machines without a root ended with the old one */
function orphans({ pool, maker, machines }: Components): OrphanPlan[] {
  pool.orphaned();
  const modes = new Map([...machines.live.values()].map(({ plan, spec }) => [plan.name, spec.network]));
  return maker.orphans((name) => modes.get(name));
}

/** how often the kernel's counters of deleted volumes are removed, in ms */
const forgetEvery = 3_600_000;

function forgetCounts(launcher: Launcher, { hasVolumes, places }: ComponentsOptions): void {
  // The next run finds what this one leaves.
  if (hasVolumes) launcher.forgetCounts(places.store).catch(() => undefined);
}

/** for an egress process that starts while no daemon runs; the file is replaced as a whole */
function leaveSettings({ run, egressSettings: file }: Places, settings: EgressSettings): void {
  makeFolderSync(run, 0o700);
  writeFileSync(`${file}.new`, JSON.stringify(settings), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** as if it had not been opened: a launcher without machines is shut down */
async function leave(launcher: Launcher): Promise<void> {
  const machines = await launcher.machines().catch(() => undefined);
  if (machines?.length === 0) await launcher.shutdown();
  else launcher.close();
}

/** how often to check the host's resolvers for changes, in ms */
const resolversEvery = 5_000;

/** sends new settings when the host's resolvers change: the egress process does not see the host's files */
function keepConfigured(
  egress: EgressLink,
  places: Places,
  settingsNow: () => EgressSettings,
  logError: (error: unknown) => void,
): void {
  const file = "/etc/resolv.conf";
  const changed = () => {
    const settings = settingsNow();
    leaveSettings(places, settings);
    egress.configure(settings).catch(logError);
  };
  watchFile(file, { interval: resolversEvery, persistent: false }, changed);
  egress.closing(() => unwatchFile(file, changed));
}
