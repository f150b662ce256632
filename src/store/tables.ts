/** The tables as the query layer knows them; their columns are made in migrations.ts. */

import type { Generated, Kysely } from "kysely";
import type { AuditEntry } from "../core/model/audit.ts";
import type { Command, Drive, Project, Sandbox, Session, Snapshot, Team } from "../core/model/sandbox.ts";
import type { Secret } from "../core/model/secret.ts";
import type { Template, TemplateBuild } from "../core/model/template.ts";
import type { Webhook, WebhookDelivery } from "../core/model/webhook.ts";
import type { ApiKey } from "../core/ports/store.ts";
import type { Row } from "./queries/rows.ts";

export type Database = Kysely<Tables>;

export interface Tables {
  migrations: { name: string; timestamp: string; number: Generated<number> };
  claims: { slot: number; epoch: number };
  identity: { slot: number; id: string };
  teams: Row<Team>;
  projects: Row<Project>;
  api_keys: Row<ApiKey>;
  sandboxes: SandboxRow;
  /** a row for each pair of tags of each sandbox that is not deleted */
  sandbox_tags: { project_id: string; key: string; value: string; created_at: number; sandbox_id: string };
  /** a row for each route of each sandbox that is not deleted */
  sandbox_routes: { subdomain: string; sandbox_id: string };
  sessions: SessionRow;
  /** a row for each value in the tags of each session's sandbox */
  session_tags: { project_id: string; key: string; value: string; created_at: number; session_id: string };
  /** the number of rows of a list, in order of creation, between the end of the previous run and the end of this one */
  runs: { project_id: string; list: string; ends_at: number; count: number };
  commands: Row<Command>;
  snapshots: Row<Snapshot>;
  drives: Row<Drive>;
  templates: Row<Template>;
  template_builds: Row<TemplateBuild>;
  template_tags: { template_id: string; tag: string; build_id: string; created_at: number };
  template_logs: {
    build_id: string;
    number: number;
    at: number;
    /** index in logLevels */
    level: number;
    message: string;
    step: number | null;
  };
  secrets: Row<Secret>;
  webhooks: Row<Webhook>;
  webhook_deliveries: Row<WebhookDelivery>;
  audit: Row<AuditEntry>;
  idempotent_requests: { key: string; began_at: number; status: number | null; body: string | null };
}

export type SandboxRow = Row<Omit<Sandbox, "totals">> & {
  total_egress_bytes: number;
  total_ingress_bytes: number;
  total_cpu_ms: number;
  total_duration_ms: number;
  /** whether its current snapshot was deleted */
  snapshot_gone: number;
  deleted_at: number | null;
};

export type SessionRow = Row<Session> & {
  /** whether the sandbox's totals have it in them */
  counted: number;
};
