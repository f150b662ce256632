/**
 * The one error class of Sandkeep. Its code is from a small closed set; each dialect has a table from code to its
 * own status and wording. The message is a sentence for people: "Cannot do X: why".
 */

export type ErrorCode =
  /** the caller's input makes no sense */
  | "invalid"
  /** what was named does not exist (or belongs to someone else) */
  | "not-found"
  /** the name is taken */
  | "exists"
  /** the thing is in a state in which this cannot be done */
  | "conflict"
  /** the thing has ended for good */
  | "gone"
  /** the caller may not do this */
  | "forbidden"
  /** the caller's team may do this, but not with this key */
  | "out-of-scope"
  /** a bound was reached: disk, memory, processes, machines */
  | "limit"
  /** the command names no executable file */
  | "unknown-executable"
  /** the working directory is missing or is not a directory */
  | "bad-cwd"
  /** the user does not exist inside the sandbox */
  | "unknown-user"
  /** it took longer than it may */
  | "timeout"
  /** this host lacks something that is needed */
  | "unsupported"
  /** no key, or one that nobody has */
  | "unauthenticated"
  /** the sandbox's name is in use */
  | "name-taken"
  /** the session is over */
  | "stopped"
  /** the session is on its way to its end */
  | "stopping"
  | "snapshotting"
  /** the sandbox cannot run again: it was never captured */
  | "no-snapshot"
  /** the snapshot expired or was deleted */
  | "snapshot-gone"
  /** the command takes no standard input */
  | "no-input"
  /** the drive is mounted elsewhere */
  | "attached"
  /** the database cannot be reached, or the daemon is closing: worth asking again */
  | "unavailable"
  /** the host's disk has no room */
  | "no-room"
  /** our own fault or the kernel's */
  | "internal";

/** What an error is about; dialects have sentences of their own for some of these. */
export interface Subject {
  kind: "sandbox" | "drive";
  /** its name, where it is about one of them */
  name?: string;
}

export class SandkeepError extends Error {
  override readonly name = "SandkeepError";
  readonly code: ErrorCode;
  /** seconds after which it is worth asking again, where that is known */
  readonly retryAfter: number | undefined;
  readonly about: Subject | undefined;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions & { retryAfter?: number; about?: Subject }) {
    super(message, options);
    this.code = code;
    this.retryAfter = options?.retryAfter;
    this.about = options?.about;
  }
}

export function notFound(kind: Subject["kind"], name: string): SandkeepError {
  const message = `${kind === "drive" ? "Drive" : "Sandbox"} '${name}' not found in this project`;
  return new SandkeepError("not-found", message, { about: { kind, name } });
}

/** of a host that runs as many sandboxes as it may */
export function tooMany(most: number): SandkeepError {
  const message = `Cannot start a sandbox: ${most} run already, and no more may`;
  return new SandkeepError("limit", message, { about: { kind: "sandbox" } });
}

export function isSandkeepError(error: unknown, code?: ErrorCode): error is SandkeepError {
  return error instanceof SandkeepError && (code === undefined || error.code === code);
}

/** what went wrong, in words, of anything that was thrown */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
