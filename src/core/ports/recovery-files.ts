/**
 * Files beside the machines' files, so that a lost database can be rebuilt: who owns each machine, snapshot and drive,
 * which database the data directory belongs to, and since when an item is unknown to that database.
 */

import type { Drive, Project, Sandbox, Session, Snapshot, Team } from "../model/sandbox.ts";

export type DescribedKind = "machine" | "snapshot" | "drive";

/** The rows of a machine, snapshot or drive at the time of its description. */
export interface Description {
  team: Team;
  project: Project;
  sandbox?: Sandbox;
  session?: Session;
  snapshot?: Snapshot;
  drive?: Drive;
}

export interface RecoveryFiles {
  /** the command line that lists what the database does not know; with --adopt after it, it also puts that on record */
  readonly recoverCommand: string;

  /** replaces an earlier description */
  describe(kind: DescribedKind, id: string, description: Description): void;
  /** undefined if there is none or it is unreadable */
  description(kind: DescribedKind, id: string): Description | undefined;
  forget(kind: DescribedKind, id: string): void;

  /** since when items have been unknown to the database, by "<kind> <id>" */
  quarantined(): Record<string, number>;
  setQuarantined(since: Record<string, number>): void;

  /** which database this data directory belongs to; undefined before the first start */
  identity(): string | undefined;
  setIdentity(id: string): void;
}
