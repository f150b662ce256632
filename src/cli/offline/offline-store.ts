/**
 * Opens a data directory for commands that work on its images without the daemon: the store, and a launcher that has no
 * machines and ends with the command. The daemon may run at the same time.
 */

import { readFileSync, realpathSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { ImageConventions } from "../../core/model/conventions.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { Launcher } from "../../runtime/linux/guest-wire/launcher.ts";
import { ImageStore } from "../../runtime/linux/images/images.ts";
import { isTagAlive, processTag } from "../../runtime/linux/layers/claims.ts";
import { LayerStore } from "../../runtime/linux/layers/layers.ts";
import { SnapshotStore } from "../../runtime/linux/layers/snapshots.ts";
import type { ImageStores } from "../../runtime/linux/oci/import.ts";
import { requireRoom } from "../../runtime/linux/storage/disk-room.ts";
import { makePrivate } from "../../runtime/linux/storage/json-file.ts";
import { closeStorage, openStorage } from "../../runtime/linux/storage/storage.ts";

export interface OfflineStore extends ImageStores {
  /** throws while the disk is short of room; `what` names what would make the store grow */
  requireRoom(what: string): void;
  /**
   * deletes unused layers and returns how many; undefined if a daemon uses the store, which then collects itself, or if
   * machines of an earlier daemon have left files
   */
  collect(): Promise<number | undefined>;
  close(): Promise<void>;
}

export interface OfflineStoreOptions {
  dataDir: string;
  /** what every image is set up with */
  conventions: ImageConventions;
  /** the native program; compiles it if need be */
  guest(): Promise<string>;
  /** directory of its socket */
  runRoot: string;
  /** bytes to keep free on the disk; default as in the daemon */
  reserve?: number | undefined;
  /** locks the data directory and returns the unlock function; undefined if a daemon has the lock */
  lock?: () => (() => void) | undefined;
  /** makes the two directories in sequence; each returned function removes a directory that was new */
  directories?: Iterable<() => void>;
}

export async function openOfflineStore(options: OfflineStoreOptions): Promise<OfflineStore> {
  if (process.getuid?.() !== 0) throw new SandkeepError("forbidden", "Cannot work on images: this needs root");
  await using failure = new AsyncDisposableStack();
  for (const removeMade of options.directories ?? []) failure.defer(removeMade);
  const guest = await options.guest();
  const dataDir = resolve(options.dataDir);
  const { runRoot, reserve, conventions } = options;
  await endOrphans(runRoot, guest);
  // Short, as its socket must not have a longer path than those of a daemon.
  const run = join(runRoot, `a-${processTag(2)}`);
  await using undo = new AsyncDisposableStack();
  const mountedBefore = isMounted(join(dataDir, "store"));
  const { path: store, volumes } = await openStorage({ dataDir });
  // A daemon that has begun to use it meanwhile keeps it mounted.
  if (!mountedBefore) undo.defer(() => closeStorage(dataDir).catch(() => undefined));
  undo.defer(() => rm(run, { recursive: true, force: true }));
  const launcher = await openLauncher(run, guest, { SANDKEEP_STORE: realpathSync(store) });
  undo.defer(() => launcher.shutdown());
  const layers = new LayerStore(store, launcher, { volumes, shared: join(dataDir, "shared") });
  const images = new ImageStore(store);
  undo.defer(() => layers.settled());
  await layers.open();
  await images.open();
  failure.move();
  const opened = undo.move();
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= opened.disposeAsync();
    return closed;
  };
  const ends = interruptions.map((signal) => endOn(signal, close));
  opened.defer(async () => {
    for (const forget of ends) forget();
  });
  const place = { dataDir, store, ...(reserve !== undefined && { reserve }) };
  const collect = async () => {
    const unlock = options.lock?.();
    if (!unlock) return undefined;
    try {
      return await collectUnused({ store, layers, images });
    } finally {
      unlock();
    }
  };
  return {
    ...{ store, layers, images, conventions, collect, close },
    requireRoom: (what) => requireRoom(place, what),
    beforeClose: (work) => opened.defer(work),
  };
}

/** only a runtime knows what machines need, so this deletes nothing if there may be any */
async function collectUnused(stores: Pick<ImageStores, "store" | "layers" | "images">): Promise<number | undefined> {
  const machines = await readdir(join(stores.store, "machines")).catch((): string[] => []);
  if (machines.length > 0) return undefined;
  await makePrivate(join(stores.store, "snapshots"));
  const snapshots = new SnapshotStore({ ...stores, machines: () => ({ layers: [], images: [] }) });
  const deleted = await snapshots.collect();
  await stores.layers.settled();
  return deleted.length;
}

const interruptions = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

// There are no machines, so there is no egress.
const idle = ["/bin/sleep", "infinity"];

function openLauncher(run: string, guest: string, env: Record<string, string> = {}): Promise<Launcher> {
  return Launcher.open({ run, binary: guest, egress: idle, env, orphans: () => [] });
}

/** stops the launchers of commands that were killed */
async function endOrphans(runRoot: string, guest: string): Promise<void> {
  const names = await readdir(runRoot).catch((): string[] => []);
  for (const name of names.filter((name) => /^(a|admin)-/.test(name) && !isTagAlive(name.replace(/^\w+-/, "")))) {
    const launcher = await openLauncher(join(runRoot, name), guest);
    await launcher.shutdown();
    await rm(join(runRoot, name), { recursive: true, force: true });
  }
}

/** closes the store when the command is interrupted; returns a function that removes the handler */
function endOn(signal: (typeof interruptions)[number], close: () => Promise<void>): () => void {
  const end = () => void close().finally(() => process.exit(1));
  process.once(signal, end);
  return () => void process.off(signal, end);
}

function isMounted(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8").includes(` ${path} `);
}
