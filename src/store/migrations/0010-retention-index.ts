/** Adds indexes of snapshots by session and sandbox, so that deleting one does not read all snapshots. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await execute(db, [
    `create index snapshots_of_session on snapshots (session_id)`,
    // The other index by sandbox omits deleted ones.
    `create index all_snapshots_of_sandbox on snapshots (sandbox_id)`,
  ]);
}
