/**
 * Blank machines: everything that can be made before anybody knows what for. A cold blank has its namespaces, cgroups
 * and network; a hot one is booted from an image as well, so that using it costs a few writes.
 */

import { chownSync, mkdirSync, rmSync } from "node:fs";
import type { Limits, NetworkMode } from "../../../core/ports/runtime.ts";
import type { Agent } from "../guest-wire/agent.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import { type CgroupHost, isInCgroup, killProcesses, makeCgroup, removeCgroup, setLimits } from "../host/cgroup.ts";
import type { Ledger, Thing } from "../host/ledger.ts";
import type { LayerStore } from "../layers/layers.ts";
import type { Volumes } from "../storage/volumes.ts";
import { agentFor } from "./machine.ts";
import {
  type BlankPlan,
  egressUser,
  type MountPlan,
  type OrphanPlan,
  orphanPlan,
  type Places,
  planActivate,
  planBlank,
  planPrepare,
  slotOf,
  slots,
} from "./plan.ts";

export interface Blank {
  plan: BlankPlan;
  /** first process, as the host sees it */
  pid: number;
  network: NetworkMode;
  /** in force already */
  limits: Limits;
  hasVolume: boolean;
  /** there when the blank is booted */
  agent?: Agent;
}

export interface BlankMakerOptions {
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

/** what a machine wants of a blank */
interface Fit {
  limits: Limits;
  network: NetworkMode;
  line?: string | undefined;
}

const cgroupRetry = 20;

export class BlankMaker {
  readonly #options: BlankMakerOptions;
  readonly #slots = new Set<number>();
  /** everything that was prepared and not released, blank or used, by name */
  readonly #alive = new Map<string, Pick<Blank, "plan" | "pid"> & { network?: NetworkMode }>();
  #nextSlot = Math.floor(Math.random() * slots);

  constructor(options: BlankMakerOptions) {
    this.#options = options;
  }

  /** machines that live already have their ids for themselves */
  use(machines: Iterable<Pick<Blank, "plan" | "pid">>): void {
    for (const machine of machines) {
      this.#slots.add(slotOf(machine.plan));
      this.#alive.set(machine.plan.name, machine);
    }
  }

  /** what lives though the launcher died; blanks without a root end with it, and their pids may be someone else's */
  orphans(networkOf: (name: string) => NetworkMode | undefined): OrphanPlan[] {
    return [...this.#alive.values()]
      .filter(({ plan, pid }) => isInCgroup(pid, plan.cgroup))
      .map(({ plan, pid, network = "deny-all" }) => orphanPlan(plan, pid, networkOf(plan.name) ?? network));
  }

  /** whether its first process is there */
  lives({ plan, pid }: Blank): boolean {
    return isInCgroup(pid, plan.cgroup);
  }

  /** namespaces, cgroups, network and, if it is known what it begins as, the volume; when it fails, nothing is left */
  async prepare(network: NetworkMode, limits: Limits, start?: VolumeStart): Promise<Blank> {
    const { places, cgroups, ledger } = this.#options;
    const plan = planBlank(places, cgroups, this.#options.newName(), this.#takeSlot());
    ledger.make(plan.things);
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
      const blank: Blank = { plan, pid, network, limits, hasVolume: start !== undefined };
      this.#alive.set(plan.name, blank);
      return blank;
    } catch (error) {
      await this.abandon(plan);
      throw error;
    }
  }

  /** mounts a root under a prepared blank and connects to its agent */
  async boot(blank: Blank, root: Root): Promise<Agent> {
    if (!blank.hasVolume) await this.#beginVolume(blank.plan, blank.limits, root);
    blank.hasVolume = true;
    await this.#options.launcher.activate(planActivate(blank.plan, { ...root, hostCpus: this.#options.hostCpus }));
    const agent = agentFor(blank.plan, this.#options);
    await agent.open();
    blank.agent = agent;
    return agent;
  }

  /** makes a blank that was prepared for nobody in particular fit a machine */
  async fit(blank: Blank, wanted: Fit): Promise<void> {
    const { launcher, volumes } = this.#options;
    const { plan, limits } = blank;
    const others = Object.entries(wanted.limits).filter(([name, value]) => limits[name as keyof Limits] !== value);
    setLimits(plan.cgroup, Object.fromEntries(others));
    await Promise.all([
      blank.network === wanted.network ? undefined : launcher.setNetwork(plan.name, wanted.network),
      limits.disk === wanted.limits.disk ? undefined : volumes.limit(plan.volume, wanted.limits.disk),
      wanted.line === undefined ? undefined : volumes.limitLine(plan.volume, wanted.line, wanted.limits.disk),
    ]);
    blank.network = wanted.network;
  }

  /** ends a blank, or what is left of one, and deletes all of it */
  async discard(plan: BlankPlan): Promise<void> {
    if (!(await this.#options.launcher.kill(plan.name))) killProcesses(plan.cgroup);
    await this.#options.volumes.deleteFolder(plan);
    await this.release(plan);
    this.#options.ledger.gone([{ kind: "directory", name: plan.folder }]);
  }

  /** as discard(), after a failure, which says more than why something of it has to stay: that is in the ledger */
  async abandon(plan: BlankPlan): Promise<void> {
    await this.discard(plan).catch(() => undefined);
  }

  /** strikes off everything but the folder; cgroups whose last process is still leaving are removed in a moment */
  async release(plan: BlankPlan): Promise<void> {
    const cgroups = plan.things.filter((thing) => thing.kind === "cgroup");
    const others = plan.things.filter((thing) => thing.kind === "socket" || thing.kind === "namespace");
    // the launcher deletes it too, unless it died before the machine did
    rmSync(plan.socket, { force: true });
    this.#options.ledger.gone(others);
    await this.#removeCgroups(cgroups);
    this.#slots.delete(slotOf(plan));
    this.#alive.delete(plan.name);
  }

  async #beginVolume({ volume }: BlankPlan, { disk }: Limits, { from, isImage, line }: VolumeStart): Promise<void> {
    const { volumes, layers } = this.#options;
    if (from === undefined) {
      await volumes.create(volume);
    } else {
      await layers.branch(from, volume, { often: isImage });
      volumes.renew(volume);
    }
    await volumes.limit(volume, disk);
    // Its limit comes last (see fit()): a sandbox that has reached it has to boot before it can delete something.
    if (line !== undefined) await volumes.limitLine(volume, line, 0);
  }

  async #removeCgroups(things: Thing[]): Promise<void> {
    const folders = things.map((thing) => thing.name);
    for (let attempt = 0; !removeCgroup(folders); attempt++) {
      // what stays is in the ledger and is removed when the runtime is opened again
      if (attempt === cgroupRetry) return;
      await new Promise((resolve) => setTimeout(resolve, 2 ** Math.min(attempt, 7)));
    }
    this.#options.ledger.gone(things);
  }

  #takeSlot(): number {
    while (this.#slots.has(this.#nextSlot % slots)) this.#nextSlot++;
    const slot = this.#nextSlot++ % slots;
    this.#slots.add(slot);
    return slot;
  }
}

/** what the first one resolves with, when neither is under way any more */
async function bothOf<T>(first: Promise<T>, other: Promise<void> | undefined): Promise<T> {
  const [result, beside] = await Promise.allSettled([first, other]);
  if (result.status === "rejected") throw result.reason;
  if (beside.status === "rejected") throw beside.reason;
  return result.value;
}

/** the one folder of a machine that the egress process may write to */
function makeEgressLog({ egressLog }: BlankPlan): void {
  mkdirSync(egressLog, { recursive: true, mode: 0o700 });
  chownSync(egressLog, egressUser, egressUser);
}
