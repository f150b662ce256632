/**
 * The files of a data directory that a lost database is rebuilt from:
 *
 *   identity.json                 { id, database }: which database this directory belongs to, and of which kind it is;
 *                                 older versions write and read only the id
 *   recovery/machine/<id>.json    a Description each, of a machine, a snapshot and a drive
 *   recovery/snapshot/<id>.json
 *   recovery/drive/<id>.json
 *   recovery/quarantine.json      { "<kind> <id>": ms since 1970 }: since when the database has not known it
 *
 * Each is written beside and renamed. Descriptions are the second copy of what the database has: they are not flushed, and
 * one that cannot be read counts as missing. The identity is flushed.
 */

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { codeOf } from "../base/error-code.ts";
import { writeDurably } from "../base/files/durable-file.ts";
import { makeFolderSync } from "../base/files/folders.ts";
import { SandkeepError } from "../core/model/errors.ts";
import type { DescribedKind, Description, RecoveryFiles } from "../core/ports/recovery-files.ts";

const databaseKinds = ["sqlite", "postgresql"] as const;

export type DatabaseKind = (typeof databaseKinds)[number];

export class DirectoryRecoveryFiles implements RecoveryFiles {
  readonly recoverCommand: string;
  readonly #dataDir: string;

  constructor(dataDir: string, recoverCommand = "sandkeep recover") {
    this.#dataDir = dataDir;
    this.recoverCommand = recoverCommand;
  }

  describe(kind: DescribedKind, id: string, description: Description): void {
    write(this.#path(kind, id), description);
  }

  description(kind: DescribedKind, id: string): Description | undefined {
    const read = readObject(this.#path(kind, id));
    // Our own file: whole, as it was renamed into place.
    return read && "project" in read ? (read as unknown as Description) : undefined;
  }

  forget(kind: DescribedKind, id: string): void {
    rmSync(this.#path(kind, id), { force: true });
  }

  quarantined(): Record<string, number> {
    const read = readObject(this.#quarantine) ?? {};
    return Object.fromEntries(Object.entries(read).filter((entry): entry is [string, number] => isTime(entry[1])));
  }

  setQuarantined(since: Record<string, number>): void {
    write(this.#quarantine, since);
  }

  identity(): string | undefined {
    const path = this.#identity;
    const text = readText(path);
    if (text === undefined) return undefined;
    const id = parse(text)?.id;
    if (typeof id === "string" && id !== "") return id;
    const how = `restore it from a backup, or delete it and run "${this.recoverCommand} --adopt"`;
    throw new SandkeepError("internal", `Cannot read "${path}": it is damaged (${how})`);
  }

  setIdentity(id: string): void {
    writeDurably(this.#identity, `${JSON.stringify({ id })}\n`);
  }

  /** of the database that it was last used with; undefined if only an older version has used it */
  databaseKind(): DatabaseKind | undefined {
    const kind = readObject(this.#identity)?.database;
    return databaseKinds.find((each) => each === kind);
  }

  /** beside the identity, which must be there */
  recordDatabaseKind(database: DatabaseKind): void {
    const id = this.identity();
    if (id === undefined || this.databaseKind() === database) return;
    writeDurably(this.#identity, `${JSON.stringify({ id, database })}\n`);
  }

  get #identity(): string {
    return join(this.#dataDir, "identity.json");
  }

  get #quarantine(): string {
    return join(this.#dataDir, "recovery/quarantine.json");
  }

  #path(kind: DescribedKind, id: string): string {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) throw new SandkeepError("invalid", `Cannot describe "${id}": that is no id`);
    return join(this.#dataDir, "recovery", kind, `${id}.json`);
  }
}

function write(path: string, value: object): void {
  const text = `${JSON.stringify(value)}\n`;
  try {
    try {
      replace(path, text);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
      makeFolderSync(dirname(path), 0o700);
      replace(path, text);
    }
  } catch (cause) {
    const code = codeOf(cause);
    if (code === undefined) throw cause;
    const what = "Cannot describe this: the disk of the data directory";
    if (code === "ENOSPC") throw new SandkeepError("no-room", `${what} is full`, { cause });
    throw new SandkeepError("unavailable", `${what} has failed (${code})`, { cause });
  }
}

function replace(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function readObject(path: string): Record<string, unknown> | undefined {
  const text = readText(path);
  return text === undefined ? undefined : parse(text);
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function isTime(value: unknown): boolean {
  return typeof value === "number" && Number.isSafeInteger(value);
}
