/**
 * What the clients of a chaos run know: everything that was acknowledged, and what may have happened without an answer.
 * A call's possible outcome is noted before the call, and narrowed down to one when the call is acknowledged.
 */

import { createHash } from "node:crypto";
import type { Seen } from "../runtime/inode-look.ts";

/** a digest of a file's content, or that there is no such file */
export type Content = string;
export const absent: Content = "absent";

export interface KnownFile {
  /** what it may hold now: one content once that was acknowledged; undefined when that is anything */
  possible: Set<Content> | undefined;
  /** whether it was written since its sandbox was last captured: a loss of power may leave anything of it */
  isDirty: boolean;
  /** the session in which it was written or seen last: the end of another one says nothing of what this one may have lost */
  heldBy?: string;
}

export interface KnownSandbox {
  name: string;
  existence: "there" | "gone" | "unknown";
  files: Map<string, KnownFile>;
  /** as JSON */
  tags: Set<string>;
  commands: KnownCommand[];
  snapshots: string[];
  /** its files as they were seen last, to see that their inode numbers stay */
  seen: Map<string, Seen>;
}

export interface KnownCommand {
  sessionId: string;
  id: string;
  output: string;
  exitCode: number;
  /** whether its session may have ended before it */
  isCut: boolean;
  /** whether its end was acknowledged */
  hasEnded: boolean;
  /** when it was acknowledged, in ms of performance.now() */
  notedAt: number;
}

/** what an acknowledged capture survives: docs/durability.md */
export type Durability = "power" | "process";

export class Knowledge {
  readonly sandboxes: KnownSandbox[] = [];
  /** whose first process was killed: what ran in them was cut off, files stay */
  readonly deadSessions = new Set<string>();
  /** what must never happen, as it happened */
  readonly violations: string[] = [];
  /** how often what was only in memory was lost: what began before may be answered afterwards */
  losses = 0;

  /** what each sandbox did last is looked at again and again; what is long over only costs time */
  trim(): void {
    for (const sandbox of this.sandboxes) sandbox.commands = sandbox.commands.slice(-6);
    const old = this.sandboxes.filter(({ existence }) => existence === "gone").slice(0, -10);
    for (const sandbox of old) this.sandboxes.splice(this.sandboxes.indexOf(sandbox), 1);
  }

  add(name: string): KnownSandbox {
    const sandbox: KnownSandbox = {
      name,
      existence: "unknown",
      files: new Map(),
      tags: new Set(["{}"]),
      commands: [],
      snapshots: [],
      seen: new Map(),
    };
    this.sandboxes.push(sandbox);
    return sandbox;
  }

  /** the store was full since `begun`, in ms of performance.now(): output of that time may be missing */
  hadNoRoom(begun: number): void {
    for (const sandbox of this.sandboxes) {
      sandbox.commands = sandbox.commands.filter(({ hasEnded, notedAt }) => hasEnded && notedAt < begun);
    }
  }

  /** the kernel could not write what it had accepted: what no stop and no snapshot has acknowledged may be gone */
  diskWasFull(): void {
    this.powerWentOff("power");
  }

  /** everything that was only in memory is gone, with `process` the latest captures too */
  powerWentOff(durability: Durability): void {
    this.losses++;
    for (const sandbox of this.sandboxes) {
      // Commands and their output are on the disk within seconds, not when they are acknowledged.
      sandbox.commands = [];
      if (durability === "process") sandbox.snapshots = [];
      for (const file of sandbox.files.values()) {
        if (file.isDirty || durability === "process") file.possible = undefined;
      }
    }
  }
}

/** what a file may hold; one that nothing is known of is not there */
export function fileOf(sandbox: KnownSandbox, path: string): KnownFile {
  const known = sandbox.files.get(path) ?? { possible: new Set([absent]), isDirty: false };
  sandbox.files.set(path, known);
  return known;
}

/** an acknowledged stop or snapshot of a session has all files as they are in it */
export function captured(sandbox: KnownSandbox, sessionId: string): void {
  for (const file of sandbox.files.values()) if (file.heldBy === sessionId) file.isDirty = false;
}

export function digestOf(text: string): Content {
  return createHash("sha256").update(text).digest("hex");
}
