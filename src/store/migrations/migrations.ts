/**
 * The schema, as the list of its migrations, and Kysely's Migrator that applies them. A released migration never
 * changes; new ones are added at the end. Each runs in one transaction together with its row in `migrations`.
 */

import { type Kysely, sql } from "kysely";
import { Migrator } from "kysely/migration";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Engine } from "../engines/engines.ts";
import { up as firstSchema } from "./0001-first-schema.ts";
import { up as lifetimes } from "./0002-lifetimes.ts";
import { up as snapshotNames } from "./0003-snapshot-names.ts";
import { up as sessionIndex } from "./0004-session-index.ts";
import { up as identity } from "./0005-identity.ts";
import { up as claims } from "./0006-claims.ts";
import { up as keyScopes } from "./0007-key-scopes.ts";
import { up as sealedEnvironments } from "./0008-sealed-environments.ts";
import { up as driveOrigins } from "./0009-drive-origins.ts";
import { up as retentionIndex } from "./0010-retention-index.ts";
import { up as waysIn } from "./0011-ways-in.ts";
import { up as pauses } from "./0012-pauses.ts";
import { up as templates } from "./0013-templates.ts";
import { up as adminKeys } from "./0014-admin-keys.ts";
import { up as teamQuotas } from "./0015-team-quotas.ts";
import { up as audit } from "./0016-audit.ts";
import { up as madeBy } from "./0017-made-by.ts";
import { up as deletedTeams } from "./0018-deleted-teams.ts";
import { up as webhooks } from "./0019-webhooks.ts";
import { up as keyQuotas } from "./0020-key-quotas.ts";
import { up as auditFilters } from "./0021-audit-filters.ts";
import { up as readableTimes } from "./0022-readable-times.ts";
import type { Migration, MigrationContext } from "./migration.ts";

/** by name; names begin with consecutive numbers from 0001 */
export type Migrations = Record<string, Migration>;

export const migrations: Migrations = {
  "0001-first-schema": firstSchema,
  "0002-lifetimes": lifetimes,
  "0003-snapshot-names": snapshotNames,
  "0004-session-index": sessionIndex,
  "0005-identity": identity,
  "0006-claims": claims,
  "0007-key-scopes": keyScopes,
  "0008-sealed-environments": sealedEnvironments,
  "0009-drive-origins": driveOrigins,
  "0010-retention-index": retentionIndex,
  "0011-ways-in": waysIn,
  "0012-pauses": pauses,
  "0013-templates": templates,
  "0014-admin-keys": adminKeys,
  "0015-team-quotas": teamQuotas,
  "0016-audit": audit,
  "0017-made-by": madeBy,
  "0018-deleted-teams": deletedTeams,
  "0019-webhooks": webhooks,
  "0020-key-quotas": keyQuotas,
  "0021-audit-filters": auditFilters,
  "0022-readable-times": readableTimes,
};

/** updates the database to this program's schema; refuses one that a newer program wrote */
export async function migrate(
  engine: Engine,
  seal: MigrationContext["seal"] = undefined,
  known: Migrations = migrations,
): Promise<void> {
  const context = { text: engine.text, allKey: engine.allKey, seal };
  const bound = Object.entries(known).map(([name, up]) => [name, { up: (db: Kysely<unknown>) => up(db, context) }]);
  const migrator = new Migrator({
    db: engine.db,
    migrationTableName: table,
    migrationLockTableName: lockTable,
    provider: { getMigrations: async () => Object.fromEntries(bound) },
    // The names give the order. Kysely would compare times, which are wrong after the clock was set back.
    allowUnorderedMigrations: true,
  });
  const applied = await recorded(engine, Object.keys(known).sort());
  if (applied === Object.keys(known).length) return;
  // One at a time, so that each has its own transaction; another program may have applied some meanwhile.
  for (;;) {
    const { error, results } = await migrator.migrateUp();
    if (error !== undefined) throw error;
    if (results?.length !== 1) return;
  }
}

const table = "migrations";
const lockTable = "migrations_lock";

/**
 * The Migrator would look for its tables in all schemas of the database, so they are made here. Programs older than the
 * Migrator read only `number`: they open a database whose schema they know, and refuse any other.
 */
const tables = [
  `create table if not exists ${table} (
    name varchar(255) primary key,
    timestamp varchar(255) not null,
    number integer generated always as (cast(substr(name, 1, 4) as integer)) stored
  )`,
  `create table if not exists ${lockTable} (id varchar(255) primary key, is_locked integer not null default 0)`,
];

/** a row that a program older than the Migrator wrote */
interface OldRow {
  number: number;
  applied_at: number;
}

type Row = OldRow | { number: number; name: string };

/** creates the migration tables, or converts those of an older program; returns the number of applied migrations */
function recorded(engine: Engine, names: string[]): Promise<number> {
  return engine.db.transaction().execute(async (tx) => {
    if (engine.migrationLock) await sql.raw(engine.migrationLock).execute(tx);
    for (const statement of tables) await sql.raw(statement).execute(tx);
    const { rows } = await sql<Row>`select * from ${sql.table(table)}`.execute(tx);
    const last = Math.max(0, ...rows.map(({ number }) => number));
    if (last > names.length) {
      throw new SandkeepError(
        "unsupported",
        `Cannot open the store: a newer Sandkeep wrote it (schema ${last}, this one knows up to ${names.length})`,
      );
    }
    const old = rows.filter((row) => "applied_at" in row);
    if (old.length > 0) {
      await tx.schema.dropTable(table).execute();
      for (const statement of tables) await sql.raw(statement).execute(tx);
      for (const { number, applied_at } of old) {
        const row = { name: names[number - 1] ?? "", timestamp: new Date(applied_at).toISOString() };
        await tx.insertInto(table).values(row).execute();
      }
    }
    return rows.length;
  });
}
