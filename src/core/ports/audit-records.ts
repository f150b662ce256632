/** The store's methods for the audit; the rules of store.ts apply. */

import type { AuditEntry } from "../model/audit.ts";
import type { Page, PageQuery } from "./store.ts";

export interface AuditRecords {
  addAudit(entries: readonly AuditEntry[]): Promise<void>;
  /** by time */
  listAudit(query: AuditQuery): Promise<Page<AuditEntry>>;
  /** deletes some of the oldest entries that the rule does not keep; returns how many, 0 when none are left */
  pruneAudit(rule: AuditRule): Promise<number>;
}

export interface AuditQuery extends PageQuery {
  /** default all teams */
  teamId?: string;
}

export interface AuditRule {
  teamId: string;
  /** keeps entries from this time on */
  from?: number;
  /** how many of the newest entries to keep */
  newest?: number;
  /** most entries to delete */
  limit: number;
}
