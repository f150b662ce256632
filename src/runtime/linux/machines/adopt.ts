/**
 * Takes over what an earlier daemon left: reconnects to machines that live, records the end of machines that died and keeps
 * their files, and undoes everything that was only half made.
 */

import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { MachineRecord } from "../../../protocols/machine-record.ts";
import type { Components } from "../components.ts";
import { OtherWireVersion } from "../guest-wire/channel.ts";
import type { LaunchedMachine } from "../guest-wire/launcher.ts";
import { type CgroupHost, isInCgroup, killProcesses, readUsage } from "../host/cgroup.ts";
import { isOwnLimit } from "../host/kernel-file.ts";
import type { Ledger } from "../host/ledger.ts";
import { isReadable, mendCopy } from "../storage/kept-record.ts";
import { lossOf } from "../storage/store-error.ts";
import { freeze, isFrozen } from "./freezer.ts";
import { LinuxMachine } from "./machine.ts";
import { type MachinePlan, orphanPlan, type Places, planMachine, slotOf } from "./plan.ts";
import { type MachineFolder, readRecords, writeRecord, writeSpare } from "./record-files.ts";

export interface AdoptOptions {
  places: Places;
  /** which boot of the host this is */
  bootId: string;
  /** whether the store was mounted anew: no machine outlives that */
  isNewlyMounted: boolean;
  components: Components;
}

export interface Adopted {
  live: LinuxMachine[];
  /** ended before, but not forgotten */
  ended: { plan: MachinePlan; record: MachineRecord }[];
  /** number of machines with damaged records that are alive or have files that were on the disk */
  damaged: number;
  /** machines whose records are damaged: they are left alone until everything is stopped */
  setAside: MachinePlan[];
}

/** how long processes of a machine that is being stopped may take to end, and how often to check, in ms */
const longestEnd = 3000;
const endPollEvery = 50;

/** throws if machines run with another run directory: a second launcher would start in this one and take them for dead */
export async function requireSameRun(places: Places, cgroups: CgroupHost, bootId: string): Promise<void> {
  const find = () =>
    readRecords(places).filter(({ name, record }) => {
      if (!record || record === "damaged" || record.ended || record.bootId !== bootId) return false;
      const { cgroup, socket } = planMachine(places, cgroups, name, slotOf(record));
      return !existsSync(socket) && isInCgroup(record.pid, cgroup);
    });
  const deadline = Date.now() + longestEnd;
  let running = find();
  // The socket of a machine that an earlier daemon was just stopping is gone before its processes are.
  while (running.length > 0 && Date.now() < deadline) {
    await pause(endPollEvery);
    running = find();
  }
  if (running.length === 0) return;
  const [runRoot, instance] = [dirname(places.run), basename(places.run)];
  const other = runRootOf(`/${instance}/m/${running[0]?.name}.sock`);
  const why = `${running.length} of its sandboxes run with their sockets in ${other === undefined ? "another one" : `"${other}"`}`;
  const back = other === undefined ? "set SANDKEEP_RUN_DIR back" : `set SANDKEEP_RUN_DIR to "${other}" again`;
  throw new SandkeepError("conflict", `Cannot use the run directory "${runRoot}": ${why}; ${back}, or stop them first`);
}

/** the directory below which a socket of this host has such a path, as the kernel lists the sockets that are open */
function runRootOf(end: string): string | undefined {
  const lines = readFileSync("/proc/net/unix", "utf8").split("\n");
  const line = lines.find((each) => each.endsWith(end));
  return line && /^(?:\S+ +){7}(\/.*)$/.exec(line.slice(0, -end.length))?.[1];
}

/** writes damaged copies of the record again: without this the damage would stay unnoticed */
function repairCopies(plan: MachinePlan, record: MachineRecord): void {
  mendCopy(join(plan.folder, "machine.json"));
  if (!isReadable(plan.spare)) writeSpare(plan, record);
}

/** whether anything of a damaged record was on the disk: a loss of power leaves new records empty */
function wasWritten(folder: string): boolean {
  return (statSync(join(folder, "machine.json.damaged"), { throwIfNoEntry: false })?.size ?? 0) > 0;
}

export async function adopt(options: AdoptOptions): Promise<Adopted> {
  const { places, components } = options;
  const { cgroups, launcher, ledger, maker } = components;
  const adopted: Adopted = { live: [], ended: [], damaged: 0, setAside: [] };
  const launched = new Map((await launcher.machines()).map((machine) => [machine.name, machine]));
  const known = new Set<string>();
  const folders = readRecords(places);
  note(ledger, folders);
  const half = new Set(ledger.outstanding().flatMap(({ kind, name }) => (kind === "directory" ? [] : name)));
  await Promise.all(
    folders.map(async ({ folder, name, record }) => {
      known.add(name);
      // It keeps running, if it runs, and its files stay: their owner is unknown.
      if (record === "damaged") {
        if (launched.has(name) || wasWritten(folder)) adopted.damaged++;
        return void adopted.setAside.push(planMachine(places, cgroups, name, 0));
      }
      const plan = planMachine(places, cgroups, name, record ? slotOf(record) : 0);
      if (record && !record.ended) repairCopies(plan, record);
      if (!record) return maker.discard(plan);
      if (record.ended) {
        if (plan.resources.some((resource) => half.has(resource.name))) await finish(components, plan);
        return void adopted.ended.push({ plan, record });
      }
      const machine = await reconnect(options, plan, record, launched.get(name));
      if (machine) return void adopted.live.push(machine);
      await recordDeath(options, plan, record);
      adopted.ended.push({ plan, record });
    }),
  );
  await undo(options, launched, known);
  removeStraySpares(places, known);
  removeStrayEgressLogs(
    places,
    [...adopted.live, ...adopted.ended].map(({ plan }) => plan),
    known,
  );
  return adopted;
}

/** deletes spares of machines whose folders are gone */
function removeStraySpares({ spares }: Places, known: Set<string>): void {
  for (const file of readdirSync(spares)) if (!known.has(basename(file, ".json"))) rmSync(join(spares, file));
}

/** adds folders that are missing in the ledger: a loss of power may have cost its last lines */
function note(ledger: Ledger, folders: MachineFolder[]): void {
  const noted = new Set(ledger.outstanding().flatMap(({ kind, name }) => (kind === "directory" ? name : [])));
  const missing = folders.filter(({ folder }) => !noted.has(folder));
  if (missing.length > 0) ledger.make(missing.map(({ folder }) => ({ kind: "directory", name: folder })));
}

/**
 * Deletes egress logs of machines that are gone. Machines of an older version have their logs in their own folders, where an
 * egress process of that version still writes them.
 */
function removeStrayEgressLogs(places: Places, plans: MachinePlan[], known: Set<string>): void {
  for (const { egressLog, folder } of plans) if (!existsSync(egressLog)) symlinkSync(folder, egressLog);
  for (const name of readdirSync(places.egressLogs)) {
    if (!known.has(name)) rmSync(join(places.egressLogs, name), { recursive: true, force: true });
  }
}

/** the machine, if its agent answers */
async function reconnect(
  { components, bootId }: AdoptOptions,
  plan: MachinePlan,
  record: MachineRecord,
  launched: LaunchedMachine | undefined,
): Promise<LinuxMachine | undefined> {
  if (record.bootId !== bootId) return undefined;
  const machine = new LinuxMachine(components, plan, record);
  try {
    // A daemon that was killed in the middle of a snapshot left it frozen, too.
    if (record.paused && isFrozen(plan.cgroup)) await machine.openPaused();
    else {
      await freeze(plan.cgroup, false);
      await machine.open();
    }
    if (!launched) {
      if (!isInCgroup(record.pid, plan.cgroup)) throw new Error("its pid belongs to another process");
      await components.launcher.readopt(orphanPlan(plan, record.pid, record.spec.network));
    }
    await machine.settleNetwork();
    return machine;
  } catch (error) {
    machine.close();
    // It lives, or may live, and must not be taken for dead.
    if (error instanceof OtherWireVersion || isOwnLimit(error)) throw error;
    return undefined;
  }
}

/** records that the machine is dead; its files stay until they are salvaged or forgotten */
async function recordDeath(options: AdoptOptions, plan: MachinePlan, record: MachineRecord): Promise<void> {
  const { launcher, maker, warn, store } = options.components;
  killProcesses(plan.cgroup);
  await launcher.kill(plan.name);
  const isOfEarlierBoot = record.bootId !== options.bootId;
  const host = isOfEarlierBoot || options.isNewlyMounted;
  const usage = { ...readUsage(plan.cgroup), network: { received: 0, sent: 0 } };
  record.ended = {
    machineId: record.id,
    cause: host ? "host" : usage.outOfMemoryKills > 0 ? "out-of-memory" : "crash",
    endedAt: Date.now(),
    reason: isOfEarlierBoot
      ? "The host was restarted"
      : host
        ? lossOf(store)
        : "It died while the daemon was not running",
    usage,
  };
  writeRecord(plan.folder, record);
  if (host && !isOfEarlierBoot)
    warn(`${lossOf(store)}, so a sandbox has ended; its files are kept`, { session: record.id });
  await maker.release(plan);
}

/** a daemon that died while it stopped the machine may have left more of it than its folder */
export async function finish(
  { launcher, maker }: Pick<Components, "launcher" | "maker">,
  plan: MachinePlan,
): Promise<void> {
  killProcesses(plan.cgroup);
  await launcher.kill(plan.name);
  await maker.release(plan);
}

/** ends machines without a folder, and removes prepared machines that are gone from the ledger */
async function undo(options: AdoptOptions, launched: Map<string, LaunchedMachine>, known: Set<string>): Promise<void> {
  const { places, components } = options;
  const { cgroups, ledger, maker } = components;
  const resources = ledger.outstanding().filter(({ kind }) => kind !== "mount");
  // A machine's cgroups leave the ledger last, when its folder may be gone already.
  const names = new Set([...launched.keys(), ...resources.map(({ name }) => basename(name, ".sock"))]);
  for (const name of names) {
    if (known.has(name) || name === "") continue;
    const plan = planMachine(places, cgroups, name, 0);
    killProcesses(plan.cgroup);
    await maker.discard(plan);
  }
}
