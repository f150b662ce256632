/** A data directory that has been used, and whose database is not there: a start says what to do. */

import { existsSync } from "node:fs";
import { SandkeepError } from "../core/model/errors.ts";
import type { DatabaseKind, DirectoryRecoveryFiles } from "./recovery-files.ts";
import type { StoreLocation } from "./sql-store.ts";

export function databaseKind(location: StoreLocation): DatabaseKind {
  return "path" in location ? "sqlite" : "postgresql";
}

/** throws if the file of a used directory is missing: a new one would know nothing of what is here */
export function requireDatabase(dataDir: string, location: StoreLocation, files: DirectoryRecoveryFiles): void {
  if (!("path" in location) || files.identity() === undefined || existsSync(location.path)) return;
  const kind = files.databaseKind();
  const why = kind === "postgresql" ? "it was used with PostgreSQL" : `its database "${location.path}" is missing`;
  const { recoverCommand } = files;
  const anew = `run "${recoverCommand}", which lists what is here, and "${recoverCommand} --adopt", which makes a new one of it`;
  const remedies: Record<DatabaseKind | "unknown", string> = {
    postgresql: `Set SANDKEEP_DATABASE_URL to that database. If it is lost, ${anew}`,
    sqlite: `Restore it from a backup; or ${anew}`,
    unknown: `If it was used with PostgreSQL, set SANDKEEP_DATABASE_URL. Restore it from a backup; or ${anew}`,
  };
  throw new SandkeepError("conflict", `Cannot serve "${dataDir}": ${why}. ${remedies[kind ?? "unknown"]}`);
}
