/**
 * What envd stores about processes in addition to the core: tags, variables, and whether they have a terminal. Notes of
 * ended processes stay for a while, so that late clients find them. Notes live in memory: after a restart, the daemon
 * has no tags of earlier processes.
 */

import { keepLast } from "../../../base/bounded-map.ts";
import type { Selector } from "./messages.ts";

export interface ProcessNote {
  pid: number;
  tag: string | undefined;
  /** empty if they are too long to keep */
  envs: Record<string, string>;
  isPty: boolean;
}

const mostSessions = 10_000;
/** most notes of one session: more than the processes that may run at once in a sandbox */
const mostNotes = 8192;
/** most characters of the variables of one process */
const longestEnvs = 8192;

export class ProcessNotes {
  readonly #sessions = new Map<string, Map<string, ProcessNote>>();

  add(sessionId: string, commandId: string, note: ProcessNote): void {
    const notes = this.#sessions.get(sessionId) ?? new Map<string, ProcessNote>();
    // Move it to the end of the map, so that sessions in use are kept.
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

  /** the id of the last ended command with this pid or tag */
  ended(sessionId: string, { pid, tag }: Selector, running: ReadonlySet<string>): string | undefined {
    const notes = [...(this.#sessions.get(sessionId) ?? [])];
    const last = notes.findLast(([id, note]) => {
      return !running.has(id) && (tag === undefined ? note.pid === pid : note.tag === tag);
    });
    return last?.[0];
  }
}
