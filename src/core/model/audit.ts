/** An entry of the audit: who changed something, what it was, and how that ended. It never has content or secrets. */

import type { ErrorCode } from "./errors.ts";

export interface AuditEntry extends Origin {
  id: string;
  /** when the call, or the stream that it returned, ended, in ms since 1970 */
  at: number;
  /** the team whose things the call was about */
  teamId: string;
  projectId?: string;
  /** the key that the caller used, which may be an admin key of another team */
  keyId?: string;
  /** what was done, such as "sandbox.create" */
  action: string;
  /** name or id of the thing: its kind is the first part of the action. For files it is a path */
  target?: string;
  sessionId?: string;
  outcome: AuditOutcome;
}

/** how a call ended: it was done, or the code of its error */
export type AuditOutcome = "done" | ErrorCode;

/** Where a call came from. */
export interface Origin {
  /** the API whose words the caller used */
  wire?: string;
  /** the client's IP address */
  address?: string;
}
