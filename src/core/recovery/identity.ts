/**
 * A data directory and its database belong together: each carries the same identity, written at the first start. A start
 * with another database, or with an empty one, would find nothing that is on record and take everything for a leftover.
 *
 *   directory   database
 *   none        none       the first start, or data of an older version: bound if they fit each other
 *   a           a          goes on
 *   a           b or none  refused
 *   none        b          refused
 */

import { SandkeepError } from "../model/errors.ts";
import type { RecoveryFiles } from "../ports/recovery-files.ts";
import type { Runtime } from "../ports/runtime.ts";
import type { Store } from "../ports/store.ts";
import { takeInventory } from "./unknown.ts";

export interface Belonging {
  store: Store;
  files: RecoveryFiles;
  /** what messages call the two */
  directory: string;
  database: string;
}

const remedy = (where: string) =>
  `Start with ${where}; or run "sandkeep recover", which lists what is here, and "sandkeep recover --adopt", which puts it on record`;

/** whether they are bound to each other already; throws when one of them belongs to another */
export async function areBound({ store, files, directory, database }: Belonging): Promise<boolean> {
  const [here, there] = [files.identity(), await store.identity()];
  if (here === undefined && there === undefined) return false;
  if (here === there) return true;
  if (there === undefined) {
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": it has been used with another database than ${database}, which is new or empty. ${remedy("the database that it was used with")}`,
    );
  }
  throw new SandkeepError(
    "conflict",
    `Cannot serve "${directory}": the database ${database} belongs to another data directory. ${remedy("the database or the directory that it was used with")}`,
  );
}

/** gives both one identity if what is in them fits; nothing is changed otherwise */
export async function bindFirst(belonging: Belonging, runtime: Runtime, fresh: string): Promise<void> {
  const { store, files, directory, database } = belonging;
  const { unknown, known } = await takeInventory(store, runtime);
  const machines = unknown.live.length + unknown.ended.length;
  if (known === 0 && machines + unknown.snapshots.length > 0) {
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": it holds ${machines} machines and ${unknown.snapshots.length} snapshots, and the database ${database} knows none of them. ${remedy("the database that it was used with")}`,
    );
  }
  if (known === 0 && (await store.liveRuntimeSnapshots()).length > 0) {
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": the database ${database} knows snapshots, and none of them is here. ${remedy("the directory that it was used with")}`,
    );
  }
  await store.setIdentity(fresh);
  files.setIdentity(fresh);
}

/** as "sandkeep recover --adopt" does: whatever is in them belongs together from now on */
export async function bindAnyway({ store, files, directory, database }: Belonging, fresh: string): Promise<void> {
  const [here, there] = [files.identity(), await store.identity()];
  if (here !== undefined && there !== undefined && here !== there) {
    throw new SandkeepError(
      "conflict",
      `Cannot adopt what is in "${directory}": the database ${database} belongs to another data directory. Name the database that this one was used with, or an empty one`,
    );
  }
  const id = there ?? here ?? fresh;
  if (there === undefined) await store.setIdentity(id);
  if (here === undefined) files.setIdentity(id);
}
