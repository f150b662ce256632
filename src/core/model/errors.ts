/**
 * The one error class of Sandkeep. An error has a code from a small closed set and, where needed, a subject. Each
 * dialect maps these to its own status and wording. The message is a sentence for people: "Cannot do X: why".
 */

export type ErrorCode =
  /** the caller's input is invalid */
  | "invalid"
  /** the named thing does not exist, or belongs to another team */
  | "not-found"
  /** the name is taken */
  | "exists"
  /** the thing's state does not allow this */
  | "conflict"
  /** the thing has ended for good */
  | "gone"
  /** the caller may not do this */
  | "forbidden"
  /** the key is missing or unknown */
  | "unauthenticated"
  /** a limit was reached: disk, memory, processes, machines */
  | "limit"
  /** it took too long */
  | "timeout"
  /** this host lacks something that is required */
  | "unsupported"
  /** the database is unreachable, or the daemon is closing: try again */
  | "unavailable"
  /** the host's disk is full */
  | "no-room"
  /** a fault of ours or of the kernel */
  | "internal";

/**
 * The subject of an error. Together with the code it distinguishes:
 *
 *   invalid executable   the command names no executable file
 *   invalid directory    the working directory is missing or is not a directory
 *   invalid user         the user does not exist inside the sandbox
 *   invalid image        there is no image of that name
 *   not-found sandbox, not-found drive
 *   exists sandbox       the sandbox's name is in use
 *   conflict session     the session is ending or paused; `state` says which
 *   conflict snapshot    the sandbox cannot run again: it has no snapshot
 *   conflict command     the command takes no standard input
 *   conflict drive       the drive is in use
 *   gone session         the session is over
 *   gone snapshot        the snapshot expired or was deleted
 *   forbidden key        the caller's team may do this, but not with this key
 *   forbidden sandbox    the sandbox belongs to another team or project
 *   limit sandbox        the host runs as many sandboxes as it may
 */
export interface Subject {
  kind:
    | "sandbox"
    | "session"
    | "snapshot"
    | "drive"
    | "command"
    | "executable"
    | "directory"
    | "user"
    | "image"
    | "key";
  /** its name, if the error is about a particular one */
  name?: string;
  /** state of a session that cannot be used now */
  state?: UnusableState;
}

type UnusableState = "stopping" | "snapshotting" | "paused";

/** A code, or a code and what the error is about: the key of a dialect's table. */
export type ErrorCase = ErrorCode | `${ErrorCode} ${Subject["kind"]}` | `conflict session ${UnusableState}`;

export class SandkeepError extends Error {
  override readonly name = "SandkeepError";
  readonly code: ErrorCode;
  /** seconds to wait before trying again, if known */
  readonly retryAfter: number | undefined;
  readonly about: Subject | undefined;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions & { retryAfter?: number; about?: Subject }) {
    super(message, options);
    this.code = code;
    this.retryAfter = options?.retryAfter;
    this.about = options?.about;
  }
}

export function notFound(kind: "sandbox" | "drive", name: string): SandkeepError {
  const message = `${kind === "drive" ? "Drive" : "Sandbox"} '${name}' not found in this project`;
  return new SandkeepError("not-found", message, { about: { kind, name } });
}

/** for a host that runs as many sandboxes as it may */
export function tooMany(most: number): SandkeepError {
  const message = `Cannot start a sandbox: ${most} run or are paused already, and no more may`;
  return new SandkeepError("limit", message, { about: { kind: "sandbox" } });
}

/** whether it is a SandkeepError, and if given, one with this code and subject */
export function isSandkeepError(error: unknown, code?: ErrorCode, kind?: Subject["kind"]): error is SandkeepError {
  if (!(error instanceof SandkeepError) || (code !== undefined && error.code !== code)) return false;
  return kind === undefined || error.about?.kind === kind;
}

/** the table keys that fit an error, the most specific first */
export function casesOf({ code, about }: SandkeepError): [ErrorCase, ...ErrorCase[]] {
  if (!about) return [code];
  const general: [ErrorCase, ErrorCase] = [`${code} ${about.kind}`, code];
  return code === "conflict" && about.kind === "session" && about.state
    ? [`conflict session ${about.state}`, ...general]
    : general;
}

/** the message of anything that was thrown */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
