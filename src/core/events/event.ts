/** What happens in a project, as followers see it. An event is published once the change is stored. */

import type { EndCause, SessionState } from "../model/sandbox.ts";

export type Event =
  | SandboxEvent
  | SessionEvent
  | CommandEvent
  | FileEvent
  | SnapshotEvent
  | PolicyEvent
  | DriveEvent
  | ImageEvent
  | WebhookEvent;

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

/** a caller has changed a session's files through the API; changes by programs inside publish no event */
interface FileEvent {
  type: "files.written";
  sessionId: string;
  /** path of the file, or of the directory that an archive was unpacked into */
  path: string;
}

interface SnapshotEvent {
  type: "snapshot.created" | "snapshot.changed" | "snapshot.deleted" | "snapshot.failed";
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

/** a create waits for an image from a registry */
interface ImageEvent {
  type: "image.pulling" | "image.pulled";
  /** its name as the caller wrote it */
  image: string;
  /** bytes so far, and of all layers that were missing */
  received?: number;
  total?: number;
}

/** the daemon has disabled a webhook that failed for long */
interface WebhookEvent {
  type: "webhook.disabled";
  webhookId: string;
  host: string;
  reason: string;
}
