/**
 * A data directory and its database belong together: both carry the same identity, written at the first start. With
 * another database, or an empty one, a daemon would know nothing in the directory and treat it all as leftovers.
 *
 *   directory   database
 *   none        none       the first start, or data of an older version: bound if they fit each other
 *   a           a          starts
 *   a           b or none  refused
 *   none        b          refused
 */

import { counted } from "../../base/counted.ts";
import { SandkeepError } from "../model/errors.ts";
import type { RecoveryFiles } from "../ports/recovery-files.ts";
import type { Runtime } from "../ports/runtime.ts";
import type { Store } from "../ports/store.ts";
import { takeInventory } from "./unknown.ts";

export interface BoundPair {
  store: Store;
  files: RecoveryFiles;
  /** names of the two in messages */
  directory: string;
  database: string;
}

const remedy = ({ files: { recoverCommand } }: BoundPair, where: string) =>
  `Start with ${where}; or run "${recoverCommand}", which lists what is here, and "${recoverCommand} --adopt", which puts it on record`;

/** whether the two are bound to each other; throws if one of them belongs to another */
export async function areBound(pair: BoundPair): Promise<boolean> {
  const { store, files, directory, database } = pair;
  const [here, there] = [files.identity(), await store.identity()];
  if (here === undefined && there === undefined) return false;
  if (here === there) return true;
  if (there === undefined) {
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": it has been used with another database than ${database}, which is new or empty. ${remedy(pair, "the database that it was used with")}`,
    );
  }
  throw new SandkeepError(
    "conflict",
    `Cannot serve "${directory}": the database ${database} belongs to another data directory. ${remedy(pair, "the database or the directory that it was used with")}`,
  );
}

/** gives both one identity if their contents fit; changes nothing otherwise */
export async function bindFirst(pair: BoundPair, runtime: Runtime, fresh: string): Promise<void> {
  const { store, files, directory, database } = pair;
  const { unknown, known } = await takeInventory(store, runtime);
  const machines = unknown.live.length + unknown.ended.length;
  if (known === 0 && machines + unknown.snapshots.length > 0) {
    const held = `${counted(machines, "machine")} and ${counted(unknown.snapshots.length, "snapshot")}`;
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": it holds ${held}, and the database ${database} knows none of them. ${remedy(pair, "the database that it was used with")}`,
    );
  }
  if (known === 0 && (await store.liveRuntimeSnapshots()).length > 0) {
    throw new SandkeepError(
      "conflict",
      `Cannot serve "${directory}": the database ${database} knows snapshots, and none of them is here. ${remedy(pair, "the directory that it was used with")}`,
    );
  }
  await store.setIdentity(fresh);
  files.setIdentity(fresh);
}

/** for "sandkeep recover --adopt": binds them whatever their contents are */
export async function bindAnyway({ store, files, directory, database }: BoundPair, fresh: string): Promise<void> {
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
