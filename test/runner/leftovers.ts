/**
 * What a run of tests leaves on the host when it does not end by itself: tests note the folders of their daemons, their
 * runtimes and their disks while they use them, and whatever is still noted at the end of the run is cleared away.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Undo } from "../harness/harness.ts";
import { cgroupsOf, entries, isAlive, mountsOf, processesOf, read } from "../harness/traces.ts";
import { runFolder } from "./run-folder.ts";

/** how long processes that were killed may take to end, in ms */
const patience = 30_000;

/** notes a folder until it is undone; call it before anything of the host uses the folder */
export function noteFolder(undo: Undo, folder: string, run = runFolder()): void {
  if (run === undefined) return;
  const note = join(notesOf(run), encodeURIComponent(folder));
  mkdirSync(notesOf(run), { recursive: true });
  writeFileSync(note, "");
  undo.defer(async () => rmSync(note, { force: true }));
}

/** ends every process of a run, and removes what the noted folders have on the host, and them; returns what stays */
export async function clearLeftovers(run: string): Promise<string[]> {
  const folders = entries(notesOf(run)).map(decodeURIComponent);
  const processes = () => [
    ...processesIn(run),
    ...folders.flatMap((folder) => [...processesOf(folder), ...held(folder)]),
  ];
  for (const deadline = performance.now() + patience; processes().length > 0 && performance.now() < deadline; ) {
    for (const pid of processes()) kill(pid);
    for (const group of folders.flatMap(cgroupsBelow)) thaw(group);
    await pause(20);
  }
  for (const folder of folders) {
    for (const place of mountsOf(folder).map(placeOf).reverse())
      attempt(() => execFileSync("umount", ["--lazy", place]));
    for (const group of cgroupsBelow(folder).reverse()) attempt(() => execFileSync("rmdir", [group]));
    attempt(() => rmSync(folder, { recursive: true, force: true }));
  }
  return [...processes().map((pid) => `process ${pid}`), ...folders.filter((folder) => existsSync(folder))];
}

function notesOf(run: string): string {
  return join(run, "in-use");
}

/** those that the run has started, directly or indirectly, with its environment */
function processesIn(run: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => `\0${read(`/proc/${pid}/environ`)}`.includes(`\0TEST_RUN_FOLDER=${run}\0`))
    .map(Number)
    .filter(isAlive);
}

/** the processes of the machines of a data directory */
function held(folder: string): number[] {
  const pids = cgroupsBelow(folder).flatMap((group) => read(join(group, "cgroup.procs")).split("\n"));
  return [...new Set(pids.filter((pid) => pid !== "").map(Number))].filter(isAlive);
}

/** the cgroups of a data directory, each before those below it */
function cgroupsBelow(folder: string): string[] {
  const withThoseBelow = (group: string): string[] => [
    group,
    ...readdirSync(group, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) => withThoseBelow(join(group, name))),
  ];
  return cgroupsOf(folder).flatMap(withThoseBelow);
}

/** a frozen process ends only once it is thawed */
function thaw(group: string): void {
  for (const [file, text] of [
    ["freezer.state", "THAWED"],
    ["cgroup.freeze", "0"],
  ] as const)
    if (existsSync(join(group, file))) attempt(() => writeFileSync(join(group, file), text));
}

/** where a line of mountinfo says that something is mounted */
function placeOf(line: string): string {
  return line.split(" ")[4] ?? "";
}

function kill(pid: number): void {
  attempt(() => process.kill(pid, "SIGKILL"));
}

/** what fails is looked for again, or reported in the end */
function attempt(act: () => unknown): void {
  try {
    act();
  } catch {}
}
