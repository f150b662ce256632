/** Adds when a team was deleted. Its row stays for what its sandboxes left. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await execute(db, [`alter table teams add column deleted_at bigint`]);
}
