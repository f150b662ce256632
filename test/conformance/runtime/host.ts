/**
 * The interface between the suites in this folder and a runtime under test: a runtime with a default image, and common
 * steps for its machines. The suites use only the core's interface, so that they fit any runtime.
 */

import { afterAll, expect, onTestFinished } from "vitest";
import type { Machine, MachineSpec, Runtime } from "../../../src/core/ports/runtime.ts";
import { eventually } from "../../harness/harness.ts";

export interface RuntimeHost {
  /** replaced by reopen() */
  readonly runtime: Runtime;
  /** a machine with a new id, from the default image unless the spec says otherwise */
  boot(spec?: Partial<MachineSpec>): Promise<Machine>;
  /** closes the runtime and opens it again, like a restarted daemon */
  reopen(): Promise<Runtime>;
}

/** a machine that is stopped and forgotten when the test ends */
export async function bootFor(host: RuntimeHost, spec: Partial<MachineSpec> = {}): Promise<Machine> {
  const machine = await host.boot(spec);
  onTestFinished(() => dismiss(host, machine.id));
  return machine;
}

/** stops a machine if it runs, and deletes its leftovers */
export async function dismiss(host: RuntimeHost, machineId: string): Promise<void> {
  await host.runtime.machine(machineId)?.stop();
  await host.runtime.forget(machineId);
}

/** the process of the host that is the first of this machine */
export function firstProcessOf({ runtime }: RuntimeHost, machineId: string): number {
  const { firstProcess } = runtime as typeof runtime & { firstProcess?(id: string): number };
  if (!firstProcess) throw new Error("This runtime does not say which process is the first of a machine");
  return firstProcess.call(runtime, machineId);
}

/** checks that the ledger and the host agree after all tests of a suite, including failed ones */
export function provesNothingIsLeft(host: () => RuntimeHost): void {
  afterAll(() => expectReconciled(host()));
}

/** retries, since the kernel may take a moment to remove things in the background */
export async function expectReconciled(host: RuntimeHost): Promise<void> {
  await eventually("an empty difference between the ledger and the host", async () => {
    expect(await host.runtime.reconcile()).toEqual([]);
    return true;
  });
}
