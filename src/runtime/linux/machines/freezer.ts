/**
 * Freezes a machine, for the moment of a snapshot or for as long as it is paused: none of its processes runs until it is
 * thawed. It stays frozen when the daemon ends.
 */

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { MachineCgroup } from "../host/cgroup.ts";
import { kernelFact } from "../host/kernel-file.ts";

/** how long a machine may take to freeze, in ms */
const longest = 2000;
/** after how long each thread is checked, in ms */
const patience = 40;

/** whether this host can freeze machines; older kernels have no freezer in their v2 tree */
export function canFreeze({ unified, freezer }: MachineCgroup): boolean {
  return unified !== undefined ? existsSync(join(unified, "cgroup.freeze")) : freezer !== undefined;
}

/** whether the machine was frozen and not thawed since, by any daemon */
export function isFrozen({ unified, freezer }: MachineCgroup): boolean {
  if (unified !== undefined) return kernelFact(join(unified, "cgroup.freeze")).trim() === "1";
  return freezer !== undefined && /^FR/.test(kernelFact(join(freezer, "freezer.state")));
}

/** freezes or thaws every process of the machine; resolves once that is done */
export async function freeze(cgroup: MachineCgroup, frozen: boolean): Promise<void> {
  const { unified, freezer } = cgroup;
  if (unified !== undefined) {
    writeFileSync(join(unified, "cgroup.freeze"), frozen ? "1" : "0");
    if (frozen)
      await still(join(unified, "cgroup.threads"), () =>
        kernelFact(join(unified, "cgroup.events")).includes("frozen 1"),
      );
  } else if (freezer !== undefined) {
    const state = join(freezer, "freezer.state");
    writeFileSync(state, frozen ? "FROZEN" : "THAWED");
    if (frozen) await still(join(freezer, "tasks"), () => kernelFact(state).startsWith("FROZEN"));
  }
}

/**
 * The kernel does not count a thread as frozen that waits for the machine's agent: for a file of /proc that the agent serves
 * (guest/view/view.h) or a call that it makes (guest/agent/grants.h). The agent is frozen, so such a thread stands still all the same.
 */
async function still(threads: string, isFrozen: () => boolean): Promise<void> {
  const began = Date.now();
  let lookAt = began + patience;
  while (!isFrozen()) {
    if (Date.now() > began + longest) {
      throw new SandkeepError("internal", "Cannot freeze the machine: its processes keep running");
    }
    if (Date.now() >= lookAt) {
      if (kernelFact(threads).trim().split("\n").every(standsStill)) return;
      lookAt = Date.now() + patience;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** in the freezer, stopped, waiting for a child that is, or waiting for the agent; by the kernel's names for where it waits */
const places =
  /^(get_signal|do_freezer_trap|__refrigerator|do_signal_stop|ptrace_stop|request_wait_answer|wait_for_vfork_done)/;
const agents = /fuse|seccomp/;

function standsStill(thread: string): boolean {
  const place = kernelFact(`/proc/${thread}/wchan`);
  return places.test(place) || agents.test(place);
}
