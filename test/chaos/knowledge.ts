/**
 * The knowledge of the clients of a chaos run: everything that was acknowledged, and what may have happened without an
 * answer. A call's possible outcomes are noted before the call, and reduced to one when the call is acknowledged.
 */

import { createHash } from "node:crypto";
import type { Seen } from "../runtime/inode-look.ts";

/** a digest of a file's content, or "absent" */
export type Content = string;
export const absent: Content = "absent";

export interface KnownFile {
  /** possible contents: one if it was acknowledged; undefined if it can be anything */
  possible: Set<Content> | undefined;
  /** whether it was written since the last capture of its sandbox: after a loss of power it may have any content */
  isDirty: boolean;
  /** the session in which it was written or seen last; only a capture of that session covers it */
  heldBy?: string;
}

export interface KnownSandbox {
  name: string;
  existence: "there" | "gone" | "unknown";
  files: Map<string, KnownFile>;
  /** possible tags, as JSON */
  tags: Set<string>;
  commands: KnownCommand[];
  snapshots: string[];
  /** its files at the last check, to verify that their inode numbers stay */
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
  /** sessions whose first process was killed: their commands were cut off, their files stay */
  readonly deadSessions = new Set<string>();
  /** descriptions of forbidden events */
  readonly violations: string[] = [];
  /** how often unflushed data was lost: calls that began before may be answered afterwards */
  losses = 0;

  /** forgets old commands and sandboxes: only the recent ones are worth checking repeatedly */
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

  /** the store was full since `begun`, in ms of performance.now(): output from that time may be missing */
  hadNoRoom(begun: number): void {
    for (const sandbox of this.sandboxes) {
      sandbox.commands = sandbox.commands.filter(({ hasEnded, notedAt }) => hasEnded && notedAt < begun);
    }
  }

  /** the kernel could not write data that it had accepted: files not in an acknowledged stop or snapshot may be lost */
  diskWasFull(): void {
    this.powerWentOff("power");
  }

  /** everything that was only in memory is lost, with `process` the latest captures too */
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

/** the knowledge of a file; an unknown one does not exist */
export function fileOf(sandbox: KnownSandbox, path: string): KnownFile {
  const known = sandbox.files.get(path) ?? { possible: new Set([absent]), isDirty: false };
  sandbox.files.set(path, known);
  return known;
}

/** an acknowledged stop or snapshot of a session contains all its files */
export function captured(sandbox: KnownSandbox, sessionId: string): void {
  for (const file of sandbox.files.values()) if (file.heldBy === sessionId) file.isDirty = false;
}

export function digestOf(text: string): Content {
  return createHash("sha256").update(text).digest("hex");
}
