/**
 * The setting of a chaos run: a daemon whose data is on a disk that can lose its power, with SQLite or PostgreSQL, and
 * the host's resources that faults need.
 */

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { vercelConventions } from "../../src/api/vercel/conventions.ts";
import { LinuxRuntime } from "../../src/runtime/linux/driver.ts";
import { type VolatileDisk, volatileDisk } from "../disks/volatile-disk.ts";
import { startDaemon, type TestDaemon } from "../harness/daemon.ts";
import { eventually, root, tempDir, type Undo } from "../harness/harness.ts";
import { sandkeepCommand } from "../harness/package.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { cgroupsOf, processesOf } from "../harness/traces.ts";
import { guestBinary } from "../runner/needs.ts";
import type { Durability } from "./knowledge.ts";
import { Load } from "./load.ts";

const run = promisify(execFile);

export interface Scene {
  daemon: TestDaemon;
  load: Load;
  disk: VolatileDisk;
  durability: Durability;
  random: () => number;
  /** the database, unless it is SQLite on the disk */
  postgres: { server: PostgresServer; url: string } | undefined;
  /** a file with the boot id that the daemon uses */
  bootId: string;
}

export interface SceneOptions {
  database: "sqlite" | "postgres";
  durability?: Durability;
  random: () => number;
}

const diskSize = 5 * 2 ** 30;

export async function setScene(undo: Undo, options: SceneOptions): Promise<Scene> {
  const { database, durability = "power", random } = options;
  const disk = await volatileDisk(undo, diskSize);
  const dataDir = join(disk.directory, "data");
  await mkdir(dataDir, { mode: 0o700 });
  const bootId = join(await tempDir(undo), "boot-id");
  writeFileSync(bootId, randomUUID());
  const server = database === "postgres" ? await startPostgres(undo) : undefined;
  const postgres = server && { server, url: await server.freshDatabase() };
  const daemon = await startDaemon(
    undo,
    { SANDKEEP_DURABILITY: durability, ...(postgres && { SANDKEEP_DATABASE_URL: postgres.url }) },
    { dataDir, command: ofAnotherBoot(bootId) },
  );
  return { daemon, load: new Load(daemon), disk, durability, random, postgres, bootId };
}

/** a daemon that treats every loss of power as a restart of the host */
function ofAnotherBoot(bootId: string): [string, ...string[]] {
  const preload = pathToFileURL(join(import.meta.dirname, "other-boot.ts")).href;
  return ["env", `NODE_OPTIONS=--import=${preload}`, `CHAOS_BOOT_ID=${bootId}`, sandkeepCommand(), "serve"];
}

/** the runtime as the next daemon would open it */
export async function runtimeOf({ daemon, bootId }: Scene): Promise<LinuxRuntime> {
  const { dataDir, runDir } = daemon;
  const egress = [process.execPath, join(root, "src/egress/main.ts")];
  const conventions = vercelConventions.image;
  const options = { dataDir, runRoot: runDir, conventions, guest: guestBinary, egress };
  const runtime = new LinuxRuntime({ ...options, bootId: readFileSync(bootId, "utf8") });
  await runtime.open();
  return runtime;
}

/** our processes of this name on the host */
export function processesCalled({ daemon }: Scene, name: string): number[] {
  return processesOf(daemon.dataDir).filter((pid) => nameOf(pid) === name);
}

/** the first process of each running machine, by session */
export function firstProcesses({ daemon }: Scene): { id: string; pid: number }[] {
  const machines = join(daemon.dataDir, "store/machines");
  return readdirSync(machines).flatMap((name) => {
    const path = join(machines, name, "machine.json");
    const record = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : { ended: true };
    return record.ended ? [] : { id: record.id, pid: record.pid };
  });
}

/** simulates a loss of power: no process, no mount and nothing in memory is left; the disk is in the state of lost() */
export async function powerCycle(scene: Scene): Promise<void> {
  const { daemon, disk, bootId } = scene;
  const { dataDir, runDir } = daemon;
  await daemon.kill9();
  await eventually("no process is left", () => {
    const all = [...processesOf(dataDir), ...cgroupsOf(dataDir).flatMap(processesIn)];
    for (const pid of all) kill(pid);
    return all.length === 0;
  });
  for (const cgroup of cgroupsOf(dataDir)) {
    await eventually("its cgroups are gone", async () => {
      await run("find", [cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
      return true;
    });
  }
  await run("find", [runDir, "-mindepth", "1", "-delete"]);
  await eventually("the store is unmounted", () => run("umount", ["--recursive", join(dataDir, "store")]));
  await disk.restart();
  writeFileSync(bootId, randomUUID());
  await daemon.start();
}

function processesIn(cgroup: string): number[] {
  const folders = readdirSync(cgroup, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
  const lists = [cgroup, ...folders.map((entry) => join(entry.parentPath, entry.name))];
  return lists.flatMap((folder) => read(join(folder, "cgroup.procs")).split("\n").filter(Boolean).map(Number));
}

/** ignores a process that is gone already */
export function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function nameOf(pid: number): string {
  return read(`/proc/${pid}/comm`).trim();
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
