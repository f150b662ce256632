/**
 * The schema, as the steps that made it. A step that was released is never changed: a later one is added below it.
 * Each is one transaction together with its row in `migrations`; two programs that open one database take turns.
 */

import { sql } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Engine } from "../engines/engines.ts";
import { identityTable } from "../identity.ts";
import type { Database } from "../tables.ts";
import { claimsTable } from "./claims-table.ts";
import { driveOrigins } from "./drive-origins.ts";
import { firstSchema } from "./first-schema.ts";
import { keyScopes } from "./key-scopes.ts";
import { lifetimes } from "./lifetimes.ts";
import { retentionIndex } from "./retention-index.ts";
import { sealEnvironments } from "./sealed-environments.ts";
import { indexSessions, sessionIndex } from "./session-index.ts";
import { snapshotNames } from "./snapshot-names.ts";

/** what makes a text unreadable for others; only the daemon has it */
type Sealing = ((text: string) => string) | undefined;

export interface Migration {
  name: string;
  statements(engine: Engine): string[];
  /** fills what the statements made with what is there already */
  fill?(db: Database, seal: Sealing): Promise<void>;
}

/** in the order they are applied; a migration's number is its place, from 1 */
const migrations: Migration[] = [
  { name: "first schema", statements: firstSchema },
  { name: "lifetimes", statements: lifetimes },
  { name: "snapshot names", statements: snapshotNames },
  { name: "session index", statements: sessionIndex, fill: indexSessions },
  { name: "identity", statements: identityTable },
  { name: "claims", statements: claimsTable },
  { name: "key scopes", statements: keyScopes },
  { name: "sealed environments", statements: () => [], fill: sealEnvironments },
  { name: "drive origins", statements: driveOrigins },
  { name: "retention index", statements: retentionIndex },
];

/** brings the database to what this program knows; refuses one that a newer program wrote */
export async function migrate(
  engine: Engine,
  now: () => number,
  known = migrations,
  seal: Sealing = undefined,
): Promise<void> {
  for (;;) {
    const applied = await applyNext(engine, now, known, seal);
    if (!applied) return;
  }
}

/** false when nothing is left to apply */
function applyNext(engine: Engine, now: () => number, known: Migration[], seal: Sealing): Promise<boolean> {
  return engine.db.transaction().execute(async (tx) => {
    if (engine.migrationLock) await sql.raw(engine.migrationLock).execute(tx);
    await sql
      .raw(
        "create table if not exists migrations (number integer primary key, name text not null, applied_at bigint not null)",
      )
      .execute(tx);
    const last = await tx
      .selectFrom("migrations")
      .select((eb) => eb.fn.max("number").as("number"))
      .executeTakeFirst();
    const number = (last?.number ?? 0) + 1;
    if (number > known.length + 1)
      throw new SandkeepError(
        "unsupported",
        `Cannot open the store: a newer Sandkeep wrote it (schema ${number - 1}, this one knows up to ${known.length})`,
      );
    const migration = known[number - 1];
    if (!migration) return false;
    for (const statement of migration.statements(engine)) await sql.raw(statement).execute(tx);
    await migration.fill?.(tx, seal);
    await tx.insertInto("migrations").values({ number, name: migration.name, applied_at: now() }).execute();
    return true;
  });
}
