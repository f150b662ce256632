/** Adds keys that may act for every team: the keys without limits of the team that runs the daemon. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  const isUnlimited = "project_id is null and read_only is null and policy_ceiling is null";
  await execute(db, [
    `alter table api_keys add column admin smallint`,
    `update api_keys set admin = 1 where team_id = 'team_default' and ${isUnlimited}`,
  ]);
}
