/** The store's methods for the audit; the rules of store.ts apply. */

import type { AuditEntry, AuditOutcome } from "../model/audit.ts";
import type { Page, PageQuery } from "./store.ts";

export interface AuditRecords {
  addAudit(entries: readonly AuditEntry[]): Promise<void>;
  /** by time */
  listAudit(query: AuditQuery): Promise<Page<AuditEntry>>;
  /** deletes some of the oldest entries that the rule does not keep; returns how many, 0 when none are left */
  pruneAudit(rule: AuditRule): Promise<number>;
}

export interface AuditQuery extends PageQuery, AuditFilter {
  /** default all teams */
  teamId?: string;
}

/** What entries have in common; a member that is not set selects all. */
export interface AuditFilter {
  /** one of these actions */
  actions?: readonly string[];
  keyId?: string;
  target?: string;
  /** "failed": anything but done */
  outcome?: AuditOutcome | "failed";
  /** from this time on */
  from?: number;
  /** up to this time */
  to?: number;
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
