/**
 * The schema, as the steps that made it. A step that was released is never changed: a later one is added below it.
 * Each is one transaction together with its row in `migrations`; two programs that open one database take turns.
 */

import { sql } from "kysely";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Engine } from "../engines/engines.ts";
import { firstSchema } from "./0001-first-schema.ts";
import { lifetimes } from "./0002-lifetimes.ts";
import { snapshotNames } from "./0003-snapshot-names.ts";
import { indexSessions, sessionIndex } from "./0004-session-index.ts";
import { identityTable } from "./0005-identity.ts";
import { claimsTable } from "./0006-claims.ts";
import { keyScopes } from "./0007-key-scopes.ts";
import { sealEnvironments } from "./0008-sealed-environments.ts";
import { driveOrigins } from "./0009-drive-origins.ts";
import { retentionIndex } from "./0010-retention-index.ts";
import type { Migration, Sealing } from "./migration.ts";

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
