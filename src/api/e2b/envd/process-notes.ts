/**
 * What envd knows of processes besides what the core does: tags, variables, and which have a terminal. Those of processes
 * that have ended are kept for a while without their variables, so that a client that comes late finds them. Known to this
 * daemon alone: one that is started again has no tags of processes that were started before.
 */

import { keepLast } from "../../../base/bounded-map.ts";
import type { Selector } from "./messages.ts";

export interface ProcessNote {
  pid: number;
  tag: string | undefined;
  /** empty where there are too many to keep, and once it has ended */
  envs: Record<string, string>;
  isPty: boolean;
}

/** how long a process that has ended can be asked for, in ms */
export const memory = 30_000;

/** processes that run, of one session: more than may run at once in a sandbox */
const mostRunning = 8192;
/** processes that have ended, of one session and of all */
const mostEnded = 256;
const mostEndedOfAll = 10_000;
/** characters of the variables of one process, and of all that run */
const longestEnvs = 8192;
const longestEnvsOfAll = 16 << 20;

/** by the id of the command, the oldest first */
interface Notes {
  running: Map<string, ProcessNote>;
  ended: Map<string, ProcessNote>;
}

export class ProcessNotes {
  readonly #now: () => number;
  readonly #sessions = new Map<string, Notes>();
  /** those that have ended, the oldest first, whether or not their session still has them */
  readonly #ended = new Map<string, { sessionId: string; at: number }>();
  /** characters of the variables of all that run */
  #length = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** of a process that runs; its end must follow */
  add(sessionId: string, commandId: string, note: ProcessNote): void {
    this.#sweep();
    const notes = this.#sessions.get(sessionId) ?? { running: new Map(), ended: new Map() };
    this.#sessions.set(sessionId, notes);
    const length = lengthOf(note);
    const isKept = length <= longestEnvs && this.#length + length <= longestEnvsOfAll;
    if (isKept) this.#length += length;
    notes.running.set(commandId, isKept ? note : { ...note, envs: {} });
    const [first] = notes.running.keys();
    if (notes.running.size > mostRunning && first !== undefined) this.#take(notes, first);
  }

  /** its process has ended */
  end(sessionId: string, commandId: string): void {
    const notes = this.#sessions.get(sessionId);
    const note = notes && this.#take(notes, commandId);
    if (note) {
      notes.ended.set(commandId, { ...note, envs: {} });
      keepLast(notes.ended, mostEnded);
      this.#ended.set(commandId, { sessionId, at: this.#now() });
    }
    this.#sweep();
  }

  of(sessionId: string, commandId: string): ProcessNote | undefined {
    const notes = this.#sessions.get(sessionId);
    return notes?.running.get(commandId) ?? notes?.ended.get(commandId);
  }

  /** the id of the last ended command with this pid or tag */
  ended(sessionId: string, { pid, tag }: Selector, running: ReadonlySet<string>): string | undefined {
    const notes = this.#sessions.get(sessionId);
    const last = [...(notes?.ended ?? []), ...(notes?.running ?? [])].findLast(([id, note]) => {
      return !running.has(id) && (tag === undefined ? note.pid === pid : note.tag === tag);
    });
    return last?.[0];
  }

  #take({ running }: Notes, commandId: string): ProcessNote | undefined {
    const note = running.get(commandId);
    if (note) this.#length -= lengthOf(note);
    running.delete(commandId);
    return note;
  }

  /** forgets notes that no client may read any more, and with the last one its session */
  #sweep(): void {
    const oldest = this.#now() - memory;
    for (const [id, { sessionId, at }] of this.#ended) {
      if (at > oldest && this.#ended.size <= mostEndedOfAll) return;
      this.#ended.delete(id);
      const notes = this.#sessions.get(sessionId);
      notes?.ended.delete(id);
      if (notes?.ended.size === 0 && notes.running.size === 0) this.#sessions.delete(sessionId);
    }
  }
}

function lengthOf({ envs }: ProcessNote): number {
  return Object.entries(envs).flat().join("").length;
}
