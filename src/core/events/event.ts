/** What happens in a project, as others hear of it. An event is published once the change is on record. */

import type { EndCause, SessionState } from "../model/sandbox.ts";

export type Event = SandboxEvent | SessionEvent | CommandEvent | FileEvent | SnapshotEvent | PolicyEvent | DriveEvent;

interface SandboxEvent {
  type: "sandbox.created" | "sandbox.changed" | "sandbox.deleted";
  sandbox: string;
  sandboxId: string;
}

/** the session has reached a state */
interface SessionEvent {
  type: `session.${SessionState}`;
  sandbox: string;
  sandboxId: string;
  sessionId: string;
  /** why it ended, once it is over */
  cause?: EndCause;
  reason?: string;
}

interface CommandEvent {
  type: "command.started" | "command.ended";
  sessionId: string;
  commandId: string;
  /** the program's name, without its arguments, which may hold secrets */
  name?: string;
  exitCode?: number;
}

/** a caller has changed files of a session through the API; what programs inside change is not told */
interface FileEvent {
  type: "files.written";
  sessionId: string;
  /** of the file, or of the directory that an archive was unpacked into */
  path: string;
}

interface SnapshotEvent {
  type: "snapshot.created" | "snapshot.deleted" | "snapshot.failed";
  sandbox: string;
  snapshotId: string;
  sessionId: string;
}

interface PolicyEvent {
  type: "policy.changed";
  sessionId: string;
}

interface DriveEvent {
  type: "drive.created" | "drive.changed" | "drive.deleted";
  drive: string;
  driveId: string;
}
