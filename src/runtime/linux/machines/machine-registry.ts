/** The machines that a runtime knows: those that run, and those that ended and are not forgotten yet. */

import type { MachineRecord } from "../../../protocols/machine-record.ts";
import type { Components } from "../components.ts";
import type { LinuxMachine } from "./machine.ts";
import type { MachinePlan } from "./plan.ts";

/** A stopped machine whose journals or files are still there. */
export interface EndedMachine {
  plan: MachinePlan;
  record: MachineRecord;
}

export class MachineRegistry {
  readonly live = new Map<string, LinuxMachine>();
  readonly ended = new Map<string, EndedMachine>();

  all(): EndedMachine[] {
    return [...this.live.values(), ...this.ended.values()];
  }

  planOf(machineId: string): MachinePlan | undefined {
    return this.live.get(machineId)?.plan ?? this.ended.get(machineId)?.plan;
  }
}

/** undoes what an ended machine had on the host, and moves it from the machines that run to those that ended */
export async function releaseMachine(components: Components, machine: LinuxMachine): Promise<void> {
  const { machines, maker, volumes, egress, builds } = components;
  machines.live.delete(machine.id);
  machines.ended.set(machine.id, { plan: machine.plan, record: machine.record });
  egress.drop(machine.plan.name);
  if (machine.spec.mounts.length > 0) await volumes.deleteMounts(machine.plan.folder);
  await maker.release(machine.plan);
  builds.released();
}
