/**
 * Moves the memory of a paused machine to the host's swap, in the background and as far as the kernel can. A host without
 * swap has no other place for it, so there it stays. A resume reads back what programs touch.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MachineCgroup } from "../host/cgroup.ts";
import { kernelText } from "../host/kernel-file.ts";

export interface MemoryReclaim {
  /** what is in swap stays there until it is used; nothing more goes there */
  stop(): void;
  /** resolves when nothing more is moved */
  readonly done: Promise<void>;
}

/** bytes that are moved in one step, between which the work can be stopped */
const step = 64 << 20;

/** undefined if the host has no room in its swap */
export function reclaimMemory(
  cgroup: MachineCgroup,
  limit: number,
  meminfo = kernelText("/proc/meminfo"),
): MemoryReclaim | undefined {
  if (freeSwap(meminfo) === 0) return undefined;
  const stopped = new AbortController();
  // The kernel refuses a step that it cannot complete, which is the end of the work and not an error.
  const done = work(cgroup, limit, stopped.signal).catch(() => undefined);
  return {
    done,
    stop() {
      if (!stopped.signal.aborted) stopped.abort();
      if (cgroup.version === 2) void writeFile(join(cgroup.memory, swapLimit), "0").catch(() => undefined);
    },
  };
}

const swapLimit = "memory.swap.max";

async function work(cgroup: MachineCgroup, limit: number, signal: AbortSignal): Promise<void> {
  if (cgroup.version === 1) {
    // v1 has one request for everything; memory and swap together stay within the machine's limit.
    await writeFile(join(cgroup.memory, "memory.force_empty"), "0");
    return;
  }
  // A machine that runs may not swap. A paused one may move all that it holds.
  await writeFile(join(cgroup.memory, swapLimit), `${limit}`);
  for (let moved = 0; moved < limit && !signal.aborted; moved += step) {
    await writeFile(join(cgroup.memory, "memory.reclaim"), `${step}`);
  }
}

/** bytes */
function freeSwap(meminfo: string): number {
  return 1024 * Number(/^SwapFree:\s+(\d+) kB$/m.exec(meminfo)?.[1] ?? 0);
}
