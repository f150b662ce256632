/** A machine that is booted for a caller: out of the pool where that has one, otherwise made now. */

import { cpus } from "node:os";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Limits, Machine } from "../../../core/ports/runtime.ts";
import type { Parts } from "../components.ts";
import type { Blank } from "./blank.ts";
import { shownCpus } from "./plan.ts";
import { type BootRoot, mountPlans } from "./roots.ts";

const hostCpus = cpus().length;

/** `usual` are the limits that machines in the pool have; one that died there, alone or with the launcher, is passed over */
export async function bootedBlank(parts: Parts, spec: Machine["spec"], root: BootRoot, usual: Limits): Promise<Blank> {
  const { maker } = parts;
  const { limits, sudo, network, line } = spec;
  for (;;) {
    const pooled = pooledBlank(parts, spec, root, usual);
    const blank = pooled ?? (await maker.prepare(network, limits, { ...root, line }));
    if (blank.agent) return blank;
    try {
      const mounts = await mountPlans(parts, blank.plan, spec.mounts);
      await maker.boot(blank, { ...root, line, limits, sudo, mounts });
      return blank;
    } catch (error) {
      await maker.abandon(blank.plan);
      if (!pooled || !isSandkeepError(error, "gone")) throw error;
    }
  }
}

function pooledBlank({ pool }: Parts, spec: Machine["spec"], root: BootRoot, usual: Limits): Blank | undefined {
  const sameCpus = shownCpus(spec.limits, hostCpus) === shownCpus(usual, hostCpus);
  const hot = root.isImage && spec.mounts.length === 0 && spec.sudo && sameCpus ? pool.takeHot(root.key) : undefined;
  return hot ?? pool.takeWarm();
}
