/** Adds indexes of the audit for lists of one key, one target or one action, and of what was refused or failed. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await execute(db, [
    "create index audit_of_key on audit (key_id, at, id)",
    "create index audit_of_target on audit (target, at, id)",
    "create index audit_of_action on audit (action, at, id)",
    "create index audit_failures on audit (team_id, at, id) where outcome <> 'done'",
  ]);
}
