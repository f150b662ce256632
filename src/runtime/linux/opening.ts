/**
 * How a runtime ends. A failed open leaves nothing open and nothing new on the host, and says why; a shutdown removes
 * everything.
 */

import { rmdirSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { messageOf, SandkeepError } from "../../core/model/errors.ts";
import type { Components } from "./components.ts";
import { errnoOf } from "./guest-wire/failure.ts";
import { realResources } from "./host/reconcile.ts";
import type { Places } from "./machines/plan.ts";
import { readRecords } from "./machines/record-files.ts";
import { closeStorage } from "./storage/storage.ts";

export interface FailedOpen {
  dataDir: string;
  places: Places;
  /** undefined before they are open */
  components: Components | undefined;
  /** whether this opening mounted the store: one that was mounted before may be in use by machines */
  hasMounted: boolean;
  /** of the runtime */
  close(): Promise<void>;
  shutdown(): Promise<void>;
}

/** cleans up after a failed open; returns the error to throw */
export async function abandoned(
  { dataDir, places, components, hasMounted, close, shutdown }: FailedOpen,
  error: unknown,
): Promise<unknown> {
  try {
    if (components && (await isIdle(components, places).catch(() => false))) await shutdown();
    else if (components) await close();
    else {
      removeEmpty([places.sockets, places.run]);
      if (hasMounted) await closeStorage(dataDir, 0);
    }
  } catch {
    // The reason for the failed open matters more than a failed clean-up.
  }
  return explained(error, places.store);
}

/** innermost first; one that has something in it stays, and so do those above it */
function removeEmpty(folders: string[]): void {
  try {
    for (const folder of folders) rmdirSync(folder);
  } catch {
    // A launcher that runs has its socket there.
  }
}

/** writes everything on the host that looks like ours into the ledger again, so that it is found and undone */
export async function rebuildLedger(components: Components, places: Places, dataDir: string): Promise<string> {
  const { ledger, launcher, cgroupParents } = components;
  const launched = await launcher.machines();
  const real = realResources({ places, cgroupParents, launched, launcherPid: launcher.pid });
  const written = new Set(ledger.outstanding().map(({ kind, name }) => `${kind} ${name}`));
  ledger.make(real.filter(({ kind, name }) => !written.has(`${kind} ${name}`)));
  const path = join(dataDir, "ledger.jsonl");
  return `The ledger "${path}" was damaged and has been made again from what is on the host; the damaged one is "${path}.damaged"`;
}

/** closes everything but machines and the store; each part is closed even if others fail */
export function letGo(components: Components): Promise<void> {
  components.isClosed = true;
  components.countsTask.close();
  components.diskWatch.close();
  components.imageWatch.close();
  components.growthStop?.close();
  components.monitor?.close();
  components.filesWatch.close();
  components.filterWatch.close();
  components.processorWatch.close();
  components.kernelMemoryWatch.close();
  components.tcpWatch.close();
  components.tcpSocketWatch.close();
  return shutDown([
    () => components.masks.close(),
    () => components.pool.close(),
    () => components.snapshots.close(),
    () => components.layers.close(),
    ...[...components.machines.live.values()].map((machine) => () => machine.close()),
    () => components.ports.close(),
    () => components.launcher.close(),
    () => components.egress.close(),
    () => components.ledger.close(),
  ]);
}

/** runs every step, even if others fail */
export async function shutDown(steps: (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, `Cannot shut down completely: ${messageOf(failures[0])}`);
}

/** whether no machine can be alive: neither one that the launcher knows, nor one that outlived an earlier launcher */
export async function isIdle({ launcher }: Components, places: Places): Promise<boolean> {
  if ((await launcher.machines()).length > 0) return false;
  return readRecords(places).every(({ record }) => record !== "damaged" && (!record || record.ended));
}

/** the operator has to repair a store that is read-only */
function explained(error: unknown, store: string): unknown {
  const isReadOnly =
    errnoOf(error) === constants.errno.EROFS || (error as NodeJS.ErrnoException | undefined)?.code === "EROFS";
  if (!isReadOnly) return error;
  const how = `look into the kernel's log for what made it so, free room on its disk, then run "umount --recursive ${store}" and start again`;
  return new SandkeepError("unsupported", `Cannot use the store "${store}": it is read-only; ${how}`, { cause: error });
}
