/**
 * What envd knows of processes besides what the core does: tags, variables, and which have a terminal. Those of processes
 * that have ended are kept for a while, so that a client that comes late finds them. Known to this daemon alone: one that
 * is started again has no tags of processes that were started before.
 */

import { keepLast } from "../../../base/bounded-map.ts";
import type { Selector } from "./messages.ts";

export interface ProcessNote {
  pid: number;
  tag: string | undefined;
  /** empty where there are too many to keep */
  envs: Record<string, string>;
  isPty: boolean;
}

const mostSessions = 10_000;
/** of one session: more than may run at once in a sandbox */
const mostNotes = 8192;
/** characters of the variables of one process */
const longestEnvs = 8192;

export class ProcessNotes {
  readonly #sessions = new Map<string, Map<string, ProcessNote>>();

  add(sessionId: string, commandId: string, note: ProcessNote): void {
    const notes = this.#sessions.get(sessionId) ?? new Map<string, ProcessNote>();
    // Last in its map again: sessions that are in use stay.
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, notes);
    keepLast(this.#sessions, mostSessions);
    const length = Object.entries(note.envs).flat().join("").length;
    notes.set(commandId, length > longestEnvs ? { ...note, envs: {} } : note);
    keepLast(notes, mostNotes);
  }

  of(sessionId: string, commandId: string): ProcessNote | undefined {
    return this.#sessions.get(sessionId)?.get(commandId);
  }

  /** the id of the last command, of those that do not run, which had this number or tag */
  ended(sessionId: string, { pid, tag }: Selector, running: ReadonlySet<string>): string | undefined {
    const notes = [...(this.#sessions.get(sessionId) ?? [])];
    const last = notes.findLast(([id, note]) => {
      return !running.has(id) && (tag === undefined ? note.pid === pid : note.tag === tag);
    });
    return last?.[0];
  }
}
