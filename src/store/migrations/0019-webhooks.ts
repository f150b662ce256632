/** Adds webhooks and their deliveries. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `create table webhooks (
      id ${text} primary key,
      team_id ${text} not null,
      project_id ${text} not null references projects (id),
      url ${text} not null,
      types ${text} not null,
      secret ${text} not null,
      enabled smallint not null,
      disabled_reason ${text},
      cursor ${text} not null,
      failing_since bigint,
      created_at bigint not null,
      updated_at bigint not null
    )`,
    `create index webhooks_of_project on webhooks (project_id, created_at, id)`,

    `create table webhook_deliveries (
      id ${text} primary key,
      webhook_id ${text} not null references webhooks (id),
      type ${text} not null,
      body ${text} not null,
      state ${text} not null,
      attempts integer not null,
      created_at bigint not null,
      attempted_at bigint,
      due_at bigint,
      status integer,
      reason ${text}
    )`,
    `create index webhook_deliveries_of_webhook on webhook_deliveries (webhook_id, created_at, id)`,
    `create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, due_at, id) where state = 'waiting'`,
  ]);
}
