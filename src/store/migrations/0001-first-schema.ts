/**
 * The first schema. Ids and JSON are text, times are milliseconds, booleans are 0 or 1. The definitions are the same in
 * both engines except for the words that an engine provides. Every list and every lookup has an index in its order.
 */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text, allKey }: MigrationContext): Promise<void> {
  await execute(db, [
    `create table teams (
      id ${text} primary key,
      slug ${text} not null unique,
      created_at bigint not null
    )`,

    `create table projects (
      id ${text} primary key,
      uuid ${text} not null unique,
      team_id ${text} not null references teams (id),
      name ${text} not null,
      created_at bigint not null,
      unique (team_id, name)
    )`,

    `create table api_keys (
      id ${text} primary key,
      team_id ${text} not null references teams (id),
      name ${text} not null,
      hash ${text} not null unique,
      hint ${text} not null,
      created_at bigint not null
    )`,
    `create index api_keys_of_team on api_keys (team_id, created_at, id)`,

    `create table sandboxes (
      id ${text} primary key,
      team_id ${text} not null,
      project_id ${text} not null references projects (id),
      name ${text} not null,
      persistent smallint not null,
      base ${text} not null,
      vcpus double precision not null,
      memory double precision not null,
      timeout bigint not null,
      network_policy ${text} not null,
      network_id ${text},
      env ${text} not null,
      tags ${text} not null,
      routes ${text} not null,
      mounts ${text} not null,
      region ${text} not null,
      failover_regions ${text} not null,
      snapshot_expiration bigint,
      keep_last_snapshots ${text},
      current_snapshot_id ${text} not null,
      snapshot_gone smallint not null,
      current_session_id ${text} not null,
      state ${text} not null,
      state_changed_at bigint not null,
      total_egress_bytes bigint not null,
      total_ingress_bytes bigint not null,
      total_cpu_ms bigint not null,
      total_duration_ms bigint not null,
      created_at bigint not null,
      updated_at bigint not null,
      deleted_at bigint
    )`,
    // A deleted sandbox's row stays for its sessions and snapshots; its name is free, and no list shows it.
    `create unique index sandboxes_by_name on sandboxes (project_id, name) where deleted_at is null`,
    `create index sandboxes_by_creation on sandboxes (project_id, created_at, id) where deleted_at is null`,
    `create index sandboxes_by_state on sandboxes (project_id, state, created_at, id) where deleted_at is null`,
    `create index sandboxes_by_state_change on sandboxes (project_id, state_changed_at, id) where deleted_at is null`,
    `create index sandboxes_by_snapshot on sandboxes (project_id, current_snapshot_id, id) where deleted_at is null`,
    `create index sandboxes_of_snapshot on sandboxes (current_snapshot_id)
      where deleted_at is null and current_snapshot_id <> ''`,

    `create index sandboxes_stale on sandboxes (state_changed_at, id)
      where deleted_at is null
        and state in ('stopped', 'failed', 'aborted')
        and (current_snapshot_id = '' or snapshot_gone = 1)`,

    `create table sandbox_tags (
      project_id ${text} not null,
      key ${text} not null,
      value ${text} not null,
      created_at bigint not null,
      sandbox_id ${text} not null references sandboxes (id),
      primary key (project_id, key, value, created_at, sandbox_id)
    ) ${allKey}`,
    `create index sandbox_tags_of_sandbox on sandbox_tags (sandbox_id)`,

    `create table sandbox_routes (
      subdomain ${text} primary key,
      sandbox_id ${text} not null references sandboxes (id)
    ) ${allKey}`,
    `create index sandbox_routes_of_sandbox on sandbox_routes (sandbox_id)`,

    `create table sessions (
      id ${text} primary key,
      short_id ${text} not null unique,
      team_id ${text} not null,
      project_id ${text} not null,
      sandbox_id ${text} not null references sandboxes (id),
      sandbox_name ${text} not null,
      state ${text} not null,
      vcpus double precision not null,
      memory double precision not null,
      timeout bigint not null,
      region ${text} not null,
      runtime ${text},
      cwd ${text} not null,
      "user" ${text} not null,
      env ${text} not null,
      persistent smallint not null,
      network_policy ${text} not null,
      source_snapshot_id ${text},
      requested_at bigint not null,
      created_at bigint not null,
      updated_at bigint not null,
      started_at bigint,
      expires_at bigint,
      requested_stop_at bigint,
      stopped_at bigint,
      aborted_at bigint,
      snapshotted_at bigint,
      duration bigint,
      cpu_ms bigint,
      ingress_bytes bigint,
      egress_bytes bigint,
      end_cause ${text},
      end_reason ${text},
      counted smallint not null
    )`,
    `create index sessions_by_creation on sessions (project_id, created_at, id)`,
    `create index sessions_of_name on sessions (project_id, sandbox_name, created_at, id)`,
    // The timer: due sessions come first.
    `create index sessions_by_expiry on sessions (expires_at, id) where state = 'running'`,
    `create index sessions_open on sessions (created_at, id)
      where state in ('pending', 'running', 'snapshotting', 'stopping')`,
    `create index sessions_uncounted on sessions (id) where counted = 0 and state in ('stopped', 'failed', 'aborted')`,

    `create table commands (
      id ${text} primary key,
      team_id ${text} not null,
      session_id ${text} not null references sessions (id),
      name ${text} not null,
      args ${text} not null,
      cwd ${text} not null,
      started_at bigint not null,
      exit_code integer,
      ended_at bigint,
      end_cause ${text}
    )`,
    `create index commands_of_session on commands (session_id, started_at, id)`,
    `create index commands_open on commands (session_id, started_at, id) where ended_at is null`,

    `create table snapshots (
      id ${text} primary key,
      team_id ${text} not null,
      project_id ${text} not null,
      sandbox_id ${text} not null references sandboxes (id),
      sandbox_name ${text} not null,
      session_id ${text} not null references sessions (id),
      runtime_id ${text} not null,
      parent_id ${text},
      base ${text} not null,
      region ${text} not null,
      state ${text} not null,
      method ${text} not null,
      size_bytes bigint not null,
      created_at bigint not null,
      updated_at bigint not null,
      last_used_at bigint not null,
      expiration bigint not null,
      expires_at bigint
    )`,
    `create index snapshots_by_creation on snapshots (project_id, created_at, id)`,
    `create index snapshots_of_name on snapshots (project_id, sandbox_name, created_at, id)`,
    `create index snapshots_of_sandbox on snapshots (sandbox_id, created_at, id) where state <> 'deleted'`,
    `create index snapshots_of_parent on snapshots (parent_id, created_at, id)`,
    `create index snapshots_of_runtime on snapshots (runtime_id)`,
    `create index snapshots_by_expiry on snapshots (expires_at, id) where state <> 'deleted'`,

    `create table drives (
      id ${text} primary key,
      team_id ${text} not null,
      project_id ${text} not null references projects (id),
      name ${text} not null,
      region ${text} not null,
      max_size_bytes bigint not null,
      session_id ${text},
      sandbox_name ${text},
      created_at bigint not null,
      updated_at bigint not null,
      unique (project_id, name)
    )`,
    `create index drives_by_creation on drives (project_id, created_at, id)`,
    `create index drives_by_update on drives (project_id, updated_at, id)`,
    `create index drives_of_session on drives (session_id) where session_id is not null`,

    `create table idempotent_requests (
      key ${text} primary key,
      began_at bigint not null,
      status integer,
      body ${text}
    )`,
    `create index idempotent_requests_by_age on idempotent_requests (began_at)`,
  ]);
}
