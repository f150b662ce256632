/**
 * Prepared machines: everything that can be made before a caller asks. A cold prepared machine has its namespaces,
 * cgroups and network; a hot one is booted from an image as well, so that using it costs a few writes.
 */

import { chownSync, mkdirSync, rmSync } from "node:fs";
import { makeFolderSync } from "../../../base/files/folders.ts";
import type { Limits, MachineSetup, NetworkMode } from "../../../core/ports/runtime.ts";
import type { HostResource } from "../../../protocols/ledger-line.ts";
import { filesOver } from "../files/files.ts";
import type { Agent } from "../guest-wire/agent.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import { type CgroupHost, isInCgroup, killProcesses, makeCgroup, removeCgroup, setLimits } from "../host/cgroup.ts";
import type { Ledger } from "../host/ledger.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { Volumes } from "../storage/volumes.ts";
import { agentFor } from "./machine.ts";
import {
  egressUser,
  type MachinePlan,
  type MountPlan,
  type OrphanPlan,
  orphanPlan,
  type Places,
  planActivate,
  planMachine,
  planPrepare,
  slotOf,
  slots,
} from "./plan.ts";

export interface PreparedMachine {
  plan: MachinePlan;
  /** first process, as the host sees it */
  pid: number;
  network: NetworkMode;
  /** in force already */
  limits: Limits;
  hasVolume: boolean;
  /** there when the prepared machine is booted */
  agent?: Agent;
  /** key of what its files have been given; unset while they are those of its root */
  setup?: string;
}

export interface MachinePreparerOptions {
  places: Places;
  cgroups: CgroupHost;
  launcher: Launcher;
  ledger: Ledger;
  volumes: Volumes;
  layers: LayerStore;
  outputLimit: number;
  journalLimit: number;
  newName: () => string;
  hostCpus: number;
}

/** what a root is made of */
export interface Root extends VolumeStart {
  /** directories below the volume, topmost first */
  layers: string[];
  limits: Limits;
  sudo: boolean;
  mounts: MountPlan[];
}

/** what a machine's volume begins as */
interface VolumeStart {
  /** the layer that it is a copy of; undefined: empty */
  from: string | undefined;
  /** whether that is an image's, from which many machines boot */
  isImage: boolean;
  /** what its disk limit is counted for, besides the volume */
  line?: string | undefined;
}

/** what a machine needs of a prepared machine */
interface Requirements {
  limits: Limits;
  network: NetworkMode;
  line?: string | undefined;
}

const cgroupRetry = 20;

export class MachinePreparer {
  readonly #options: MachinePreparerOptions;
  readonly #slots = new Set<number>();
  /** everything that was prepared and not released, in the pool or used, by name */
  readonly #alive = new Map<string, Pick<PreparedMachine, "plan" | "pid"> & { network?: NetworkMode }>();
  #nextSlot = Math.floor(Math.random() * slots);

  constructor(options: MachinePreparerOptions) {
    this.#options = options;
  }

  /** reserves the ids of machines that live already */
  use(machines: Iterable<Pick<PreparedMachine, "plan" | "pid">>): void {
    for (const machine of machines) {
      this.#slots.add(slotOf(machine.plan));
      this.#alive.set(machine.plan.name, machine);
    }
  }

  /** what lives though the launcher died; prepared machines without a root end with it, and their pids may belong to other processes */
  orphans(networkOf: (name: string) => NetworkMode | undefined): OrphanPlan[] {
    return [...this.#alive.values()]
      .filter(({ plan, pid }) => isInCgroup(pid, plan.cgroup))
      .map(({ plan, pid, network = "deny-all" }) => orphanPlan(plan, pid, networkOf(plan.name) ?? network));
  }

  /** whether its first process is there */
  lives({ plan, pid }: PreparedMachine): boolean {
    return isInCgroup(pid, plan.cgroup);
  }

  /** namespaces, cgroups, network and, if it is known what it begins as, the volume; when it fails, nothing is left */
  async prepare(network: NetworkMode, limits: Limits, start?: VolumeStart): Promise<PreparedMachine> {
    const { places, cgroups, ledger } = this.#options;
    const plan = planMachine(places, cgroups, this.#options.newName(), this.#takeSlot());
    ledger.make(plan.resources);
    try {
      mkdirSync(plan.folder, { mode: 0o700 });
      mkdirSync(plan.journal, { mode: 0o700 });
      makeEgressLog(plan);
      makeCgroup(plan.cgroup);
      setLimits(plan.cgroup, limits);
      const pid = await bothOf(
        this.#options.launcher.prepare(planPrepare(plan, network)),
        start && this.#beginVolume(plan, limits, start),
      );
      const prepared: PreparedMachine = { plan, pid, network, limits, hasVolume: start !== undefined };
      this.#alive.set(plan.name, prepared);
      return prepared;
    } catch (error) {
      await this.abandon(plan);
      throw error;
    }
  }

  /** mounts a root under a prepared machine and connects to its agent */
  async boot(prepared: PreparedMachine, root: Root): Promise<Agent> {
    if (!prepared.hasVolume) await this.#beginVolume(prepared.plan, prepared.limits, root);
    prepared.hasVolume = true;
    await this.#options.launcher.activate(planActivate(prepared.plan, { ...root, hostCpus: this.#options.hostCpus }));
    const agent = agentFor(prepared.plan, this.#options);
    await agent.open({ isNew: true });
    prepared.agent = agent;
    return agent;
  }

  /** applies the caller's limits, drives and other settings to a prepared machine */
  async fit(prepared: PreparedMachine, wanted: Requirements): Promise<void> {
    const { launcher, volumes } = this.#options;
    const { plan, limits } = prepared;
    const others = Object.entries(wanted.limits).filter(([name, value]) => limits[name as keyof Limits] !== value);
    setLimits(plan.cgroup, Object.fromEntries(others));
    await Promise.all([
      prepared.network === wanted.network ? undefined : launcher.setNetwork(plan.name, wanted.network),
      limits.disk === wanted.limits.disk ? undefined : volumes.limit(plan.volume, wanted.limits.disk),
      wanted.line === undefined ? undefined : volumes.limitLine(plan.volume, wanted.line, wanted.limits.disk),
    ]);
    prepared.network = wanted.network;
  }

  /** ends a prepared machine, or what is left of one, and deletes all of it */
  async discard(plan: MachinePlan): Promise<void> {
    if (!(await this.#options.launcher.kill(plan.name))) killProcesses(plan.cgroup);
    await this.#options.volumes.deleteFolder(plan);
    await this.release(plan);
    this.#options.ledger.gone([{ kind: "directory", name: plan.folder }]);
  }

  /** as discard(), after a failure; errors of the discard are ignored, as the ledger has what stays */
  async abandon(plan: MachinePlan): Promise<void> {
    await this.discard(plan).catch(() => undefined);
  }

  /** removes everything but the folder; cgroups whose last process is still ending are removed a moment later */
  async release(plan: MachinePlan): Promise<void> {
    const cgroups = plan.resources.filter((resource) => resource.kind === "cgroup");
    const others = plan.resources.filter((resource) => resource.kind === "socket" || resource.kind === "namespace");
    // the launcher deletes it too, unless it died before the machine did
    rmSync(plan.socket, { force: true });
    this.#options.ledger.gone(others);
    await this.#removeCgroups(cgroups);
    this.#slots.delete(slotOf(plan));
    this.#alive.delete(plan.name);
  }

  async #beginVolume({ volume }: MachinePlan, { disk }: Limits, { from, isImage, line }: VolumeStart): Promise<void> {
    const { volumes, layers } = this.#options;
    let isLimited = false;
    if (from === undefined) {
      await volumes.create(volume);
    } else {
      isLimited = await layers.branch(from, volume, { often: isImage, limit: disk });
      volumes.renew(volume);
    }
    await Promise.all([
      isLimited ? undefined : volumes.limit(volume, disk),
      // Its limit comes last (see fit()): a sandbox that has reached it has to boot before it can delete something.
      line === undefined ? undefined : volumes.limitLine(volume, line, 0),
    ]);
  }

  async #removeCgroups(resources: HostResource[]): Promise<void> {
    const folders = resources.map((resource) => resource.name);
    for (let attempt = 0; !removeCgroup(folders); attempt++) {
      // what stays is in the ledger and is removed when the runtime is opened again
      if (attempt === cgroupRetry) return;
      await new Promise((resolve) => setTimeout(resolve, 2 ** Math.min(attempt, 7)));
    }
    this.#options.ledger.gone(resources);
  }

  #takeSlot(): number {
    while (this.#slots.has(this.#nextSlot % slots)) this.#nextSlot++;
    const slot = this.#nextSlot++ % slots;
    this.#slots.add(slot);
    return slot;
  }
}

/** changes the files of a booted prepared machine, unless they have been changed in this way */
export async function setUp(prepared: PreparedMachine, setup: MachineSetup | undefined): Promise<void> {
  const { agent } = prepared;
  if (!agent || !setup || prepared.setup === setup.key) return;
  await setup.apply(filesOver(() => agent.files("root")));
  prepared.setup = setup.key;
}

/** waits for both; resolves with the value of the first */
async function bothOf<T>(first: Promise<T>, other: Promise<void> | undefined): Promise<T> {
  const [result, beside] = await Promise.allSettled([first, other]);
  if (result.status === "rejected") throw result.reason;
  if (beside.status === "rejected") throw beside.reason;
  return result.value;
}

/** the one folder of a machine that the egress process may write to */
function makeEgressLog({ egressLog }: MachinePlan): void {
  makeFolderSync(egressLog, 0o700);
  chownSync(egressLog, egressUser, egressUser);
}
