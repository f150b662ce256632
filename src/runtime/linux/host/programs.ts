/** The programs of a machine, for watches that end some when a sandbox takes too much of the host. */

import type { LinuxMachine } from "../machines/machine.ts";
import { processesIn } from "./cgroup.ts";

/** processes of a machine but the first one, which is the agent */
export function programsOf({ plan, record }: LinuxMachine): number[] {
  return processesIn(plan.cgroup).filter((pid) => pid !== record.pid);
}

export function killProgram(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it has ended by itself
  }
}
