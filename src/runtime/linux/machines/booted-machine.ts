/** Boots a machine for a caller: from the pool if it has one, otherwise a new one. It is set up when it is handed over. */

import { cpus } from "node:os";
import { isSandkeepError } from "../../../core/model/errors.ts";
import { imageKey } from "../../../core/model/image.ts";
import type { Limits, Machine, MachineSetup } from "../../../core/ports/runtime.ts";
import type { Components } from "../components.ts";
import { shownCpus } from "./plan.ts";
import { type PreparedMachine, setUp } from "./prepared-machine.ts";
import { type BootRoot, mountPlans } from "./roots.ts";

interface WantedRoot extends BootRoot {
  setup: MachineSetup | undefined;
}

const hostCpus = cpus().length;

/** `usual` are the limits that machines in the pool have; a machine that died in the pool, alone or with the launcher, is skipped */
export async function bootedMachine(
  components: Components,
  spec: Machine["spec"],
  root: WantedRoot,
  usual: Limits,
): Promise<PreparedMachine> {
  const { maker } = components;
  const { limits, sudo, network, line } = spec;
  for (;;) {
    const pooled = pooledMachine(components, spec, root, usual);
    const prepared = pooled ?? (await maker.prepare(network, limits, { ...root, line }));
    try {
      if (!prepared.agent) {
        const mounts = await mountPlans(components, prepared.plan, spec.mounts);
        await maker.boot(prepared, { ...root, line, limits, sudo, mounts });
      }
      await setUp(prepared, root.setup);
      return prepared;
    } catch (error) {
      await maker.abandon(prepared.plan);
      if (!pooled || !isSandkeepError(error, "gone")) throw error;
    }
  }
}

function pooledMachine(
  { pool }: Components,
  spec: Machine["spec"],
  root: WantedRoot,
  usual: Limits,
): PreparedMachine | undefined {
  const sameCpus = shownCpus(spec.limits, hostCpus) === shownCpus(usual, hostCpus);
  const isUsual = root.isImage && spec.mounts.length === 0 && spec.sudo && sameCpus;
  const hot = isUsual ? pool.takeHot(imageKey(root.image), root.key, root.setup) : undefined;
  return hot ?? pool.takeWarm();
}
