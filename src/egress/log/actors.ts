/**
 * Finds the process and the command behind a connection. netd asks inside the sandbox which process holds a socket, and
 * reports it; the daemon knows which command the process belongs to (control.ts). Traffic waits for neither, only its line
 * in the log does; without an answer in time the line is written without them.
 */

import type { Ancestry, CommandQuestion } from "../../protocols/egress-control.ts";
import type { EgressActor } from "../../protocols/egress-log.ts";
import type { Holder } from "../../protocols/netd-channel.ts";
import type { EgressLog } from "./log.ts";

/** A search for the process behind a connection. */
export interface Search {
  /** the process and command, as far as they were found in time */
  actor: Promise<EgressActor>;
  /** resolves when the process may end without spoiling the search */
  seen: Promise<void>;
}

/** Sends questions to the daemon; false where it has too much to read already. */
export type Ask = (line: { questions: CommandQuestion[] }) => boolean;

interface PendingSearch {
  machine: string;
  search: Search;
  holder?: Holder;
  saw(): void;
  tell(actor: EgressActor): void;
}

/** how long a line of the log waits, in ms */
const patience = 500;
/** how long a program waits that will be refused, in ms: it may end as soon as it is refused */
const refusalPatience = 50;
/** how long processes are gathered before the daemon is asked about them, in ms */
const gathering = 10;
/** searches under way, of all machines; beyond it each machine still has its reserve */
const mostAtOnce = 1024;
const reserved = 8;
const longestProgram = 64;

const noSearch: Search = { actor: Promise.resolve({}), seen: Promise.resolve() };

export class Actors {
  readonly #open = new Map<number, PendingSearch>();
  /** how many of them are of each machine */
  readonly #counts = new Map<string, number>();
  readonly #daemons: Ask[] = [];
  #found: number[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** `id` is netd's number of the question, or 0 */
  find(machine: string, id: number): Search {
    const ofMachine = this.#counts.get(machine) ?? 0;
    if (id === 0 || this.#open.has(id) || (this.#open.size >= mostAtOnce && ofMachine >= reserved)) return noSearch;
    const seen = Promise.withResolvers<void>();
    const actor = Promise.withResolvers<EgressActor>();
    const search = { seen: seen.promise, actor: actor.promise };
    const timer = setTimeout(() => this.#end(id), patience);
    const tell = (found: EgressActor) => {
      clearTimeout(timer);
      actor.resolve(found);
    };
    this.#open.set(id, { machine, search, saw: seen.resolve, tell });
    this.#counts.set(machine, ofMachine + 1);
    return search;
  }

  /** netd's answer; without a process, the search found none */
  found(id: number, holder: Holder): void {
    const open = this.#open.get(id);
    if (!open) return;
    open.saw();
    open.holder = holder;
    if (holder.ancestry.length === 0) {
      this.#end(id);
      return;
    }
    this.#found.push(id);
    this.#timer ??= setTimeout(() => this.#ask(), gathering);
  }

  /** the daemon's answer */
  answered(id: number, command: string | undefined): void {
    this.#end(id, command);
  }

  /** a daemon that may be asked from now on; returns a function to call when it is gone */
  connected(ask: Ask): () => void {
    this.#daemons.push(ask);
    return () => {
      this.#daemons.splice(this.#daemons.indexOf(ask), 1);
      // The next daemon does not know questions that this one was asked.
      for (const [id, { holder }] of [...this.#open]) if (holder && !this.#found.includes(id)) this.#end(id);
    };
  }

  /** resolves when every search that was pending for this machine at the time of the call has finished */
  async settled(machine: string): Promise<void> {
    this.#ask();
    const searches = [...this.#open.values()].filter((each) => each.machine === machine);
    await Promise.all(searches.map((each) => each.search.actor));
  }

  #ask(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const found = this.#found;
    this.#found = [];
    const ask = this.#daemons.at(-1);
    const questions = found.flatMap((question): CommandQuestion[] => {
      const { machine = "", holder } = this.#open.get(question) ?? {};
      // netd says three numbers of each process.
      return holder ? [{ question, machine, ancestry: holder.ancestry as Ancestry }] : [];
    });
    if (questions.length === 0 || ask?.({ questions })) return;
    for (const { question } of questions) this.#end(question);
  }

  #end(id: number, command?: string): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    const others = (this.#counts.get(open.machine) ?? 1) - 1;
    if (others === 0) this.#counts.delete(open.machine);
    else this.#counts.set(open.machine, others);
    const program = open.holder && plainName(open.holder.program);
    open.saw();
    open.tell({ ...(command !== undefined && { command }), ...(program && { program }) });
  }
}

/** a log that gets each event once its search has finished, in the same order */
export function attributed(log: EgressLog, { actor }: Search): Pick<EgressLog, "decided" | "ended"> {
  return {
    decided: (event) => void actor.then((who) => log.decided({ ...event, ...who })),
    ended: (event, traffic) => void actor.then((who) => log.ended({ ...event, ...who }, traffic)),
  };
}

/** resolves when a program may be refused: it may end then, and its process must be found before */
export async function beforeRefusal({ seen }: Search): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, refusalPatience);
  await Promise.race([seen, late.promise]);
  clearTimeout(timer);
}

/** limits and cleans the name, which a program chooses itself */
function plainName(name: string): string {
  return name.replace(/[\p{C}\p{Zl}\p{Zp}\ufffd]/gu, "?").slice(0, longestProgram);
}
