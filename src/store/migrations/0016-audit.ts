/** Adds the audit: who changed what. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `create table audit (
      id ${text} primary key,
      at bigint not null,
      team_id ${text} not null,
      project_id ${text},
      key_id ${text},
      wire ${text},
      address ${text},
      action ${text} not null,
      target ${text},
      session_id ${text},
      outcome ${text} not null
    )`,
    `create index audit_of_team on audit (team_id, at, id)`,
    `create index audit_of_all on audit (at, id)`,
  ]);
}
