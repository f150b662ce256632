/** Adds how clients reach the ports of a sandbox besides its routes, and the data that dialects store with it. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table sandboxes add column ingress ${text}`,
    `alter table sandboxes add column notes ${text}`,
  ]);
}
