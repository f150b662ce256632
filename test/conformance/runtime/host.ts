/**
 * What the suites in this folder need of whoever runs them: a runtime with a default image, and what every test does
 * with its machines. The suites use nothing but the core's interface, so that any runtime can be held against them.
 */

import { afterAll, expect, onTestFinished } from "vitest";
import type { Machine, MachineSpec, Runtime } from "../../../src/core/ports/runtime.ts";
import { eventually } from "../../harness/harness.ts";

export interface RuntimeHost {
  /** changes with reopen() */
  readonly runtime: Runtime;
  /** a machine with an id of its own, from the default image unless the spec says otherwise */
  boot(spec?: Partial<MachineSpec>): Promise<Machine>;
  /** lets go of the runtime and opens it again, as a daemon that was started again would */
  reopen(): Promise<Runtime>;
}

/** a machine that is stopped and forgotten when the test ends */
export async function bootFor(host: RuntimeHost, spec: Partial<MachineSpec> = {}): Promise<Machine> {
  const machine = await host.boot(spec);
  onTestFinished(() => dismiss(host, machine.id));
  return machine;
}

/** stops a machine if it lives, and deletes what is left of it */
export async function dismiss(host: RuntimeHost, machineId: string): Promise<void> {
  await host.runtime.machine(machineId)?.stop();
  await host.runtime.forget(machineId);
}

/** the ledger and the host must agree once every test of a suite is over, also of those that failed */
export function provesNothingIsLeft(host: () => RuntimeHost): void {
  afterAll(() => expectReconciled(host()));
}

/** what the kernel takes apart in the background may be there for a moment longer */
export async function expectReconciled(host: RuntimeHost): Promise<void> {
  await eventually("an empty difference between the ledger and the host", async () => {
    expect(await host.runtime.reconcile()).toEqual([]);
    return true;
  });
}
