/** Templates of teams with their builds, tags and logs, and secrets of teams. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `create table templates (
      id ${text} primary key,
      team_id ${text} not null,
      name ${text} not null,
      is_public integer not null,
      created_at bigint not null,
      updated_at bigint not null,
      spawns bigint not null,
      last_spawned_at bigint,
      unique (team_id, name)
    )`,
    `create index templates_of_team on templates (team_id, created_at, id)`,
    `create table template_builds (
      id ${text} primary key,
      template_id ${text} not null,
      state ${text} not null,
      tags ${text} not null,
      vcpus integer not null,
      memory bigint not null,
      reason ${text},
      created_at bigint not null,
      updated_at bigint not null,
      finished_at bigint
    )`,
    `create index template_builds_of_template on template_builds (template_id, created_at, id)`,
    `create table template_tags (
      template_id ${text} not null,
      tag ${text} not null,
      build_id ${text} not null,
      created_at bigint not null,
      primary key (template_id, tag)
    )`,
    `create table template_logs (
      build_id ${text} not null,
      number integer not null,
      at bigint not null,
      level integer not null,
      message ${text} not null,
      step integer,
      primary key (build_id, number)
    )`,
    `create table secrets (
      id ${text} primary key,
      team_id ${text} not null,
      name ${text} not null,
      value ${text} not null,
      version integer not null,
      metadata ${text} not null,
      created_at bigint not null,
      updated_at bigint not null,
      unique (team_id, name)
    )`,
    `create index secrets_of_team on secrets (team_id, created_at, id)`,
  ]);
}
