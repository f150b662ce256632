/**
 * Shares the time of this process, which serves all machines, among them. The work of a machine is a number of
 * pieces, each with an estimate of its time. A machine with little work gets it done at once, from an allowance that
 * refills; the rest waits in order of arrival, and is done in turns with the waiting work of other machines, a slice in
 * each turn of the event loop:
 *
 *   one machine is active    the next slice comes with the next turn of the event loop: the machine gets all the time
 *   several are              the next slice comes after as much idle time as busy time since the last one: half of
 *                            the time is free for machines with little work
 *
 * Nothing is lost: work that waits holds back its source. load-watch.ts handles work that needs no turn.
 */

import { type Budget, newAllowance } from "./allowance.ts";
import { LoadWatch, type Watched } from "./load-watch.ts";

export interface TimeShare {
  /** resolves when a piece of work may begin that takes about `cost` µs; when the machine has ended, at once */
  turn(cost: number): Promise<void>;
  /** counts work that is done already; returns whether more of its kind may continue without waiting for a turn */
  spend(cost: number): boolean;
  /**
   * Calls `begin` when one more request may be under way, of which a machine has `mostRequests` at once. Returns a function
   * to call once when the request is over or cancelled.
   */
  request(cost: number, begin: () => void): () => void;
  /** whether so many requests wait that no more should be taken */
  readonly isFull: boolean;
  /** counts work for a connection that needs no turns; returns a function that ends the counting */
  watch(watched: Watched): () => void;
  /** the machine has ended: nothing of it waits any longer */
  end(): void;
}

/** requests of one machine that are passed on at once */
export const mostRequests = 256;
/** and that wait: each of them holds its headers */
const mostWaiting = 4_096;

/** what a machine may have done without waiting, in µs */
const unhindered = { atOnce: 100_000, perSecond: 200_000 };
/** µs of waiting work in one turn of the event loop, while one machine is active and while several are */
const aloneSlice = 4_000;
const sharedSlice = 1_000;
/** how long a machine counts as active after it wanted something, in ms */
const activeFor = 250;
/** longest that waiting work waits between slices, in ms */
const longestPause = 20;

export interface TurnsOptions {
  /** ms */
  now: () => number;
  /** ms that this process has had something to do so far, and nothing */
  used: () => { active: number; idle: number };
  /** calls back after a pause in ms, or with the next turn of the event loop where it is 0 */
  after: (pause: number, call: () => void) => void;
}

/** by the clock of this process, and by how busy it has been */
export function newTurns(now: () => number): Turns {
  return new Turns({
    now,
    used: () => performance.eventLoopUtilization(),
    after: (pause, call) => void (pause === 0 ? setImmediate(call) : setTimeout(call, Math.ceil(pause))),
  });
}

interface Piece {
  cost: number;
  begin: () => void;
}

export class Turns {
  readonly #options: TurnsOptions;
  readonly #load: LoadWatch;
  /** shares with waiting pieces; whose turn is next comes first */
  readonly #queue = new Set<MachineShare>();
  /** who was active last, and who before that */
  #last: { share: MachineShare; at: number } | undefined;
  #other: { share: MachineShare; at: number } | undefined;
  #scheduled = false;
  /** the last slice */
  #before = { at: 0, active: 0, idle: 0 };

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#load = new LoadWatch(options);
  }

  /** for a machine that is not known yet */
  share(): TimeShare {
    return new MachineShare(this.#options.now, {
      isActive: (share) => this.#isActive(share),
      isAlone: () => !this.#isShared(),
      waits: (share) => this.#waits(share),
      watch: (watched, share) => this.#load.watch(watched, share),
    });
  }

  #isActive(share: MachineShare): void {
    const at = this.#options.now();
    if (this.#last && this.#last.share !== share) this.#other = this.#last;
    this.#last = { share, at };
    this.#load.look();
  }

  /** whether more than one machine is active */
  #isShared(): boolean {
    return this.#other !== undefined && this.#other.at > this.#options.now() - activeFor;
  }

  #waits(share: MachineShare): void {
    this.#queue.add(share);
    if (!this.#scheduled) this.#schedule(0);
  }

  #schedule(pause: number): void {
    this.#scheduled = true;
    this.#options.after(pause, () => {
      this.#scheduled = false;
      const more = this.#isShared() ? this.#pause() : 0;
      if (more > 0) return this.#schedule(more);
      this.#slice();
      if (this.#queue.size > 0) this.#schedule(0);
    });
  }

  /** ms that are left until others have had as much time as the last slice took, with all that it led to */
  #pause(): number {
    const { active, idle } = this.#options.used();
    const waited = this.#options.now() - this.#before.at;
    const owed = active - this.#before.active - (idle - this.#before.idle);
    return Math.min(owed, longestPause - waited);
  }

  #slice(): void {
    this.#before = { at: this.#options.now(), ...this.#options.used() };
    const most = this.#isShared() ? sharedSlice : aloneSlice;
    for (let done = 0; done < most; ) {
      const [share] = this.#queue;
      if (!share) break;
      this.#queue.delete(share);
      done += share.next();
      if (share.hasWaiting) this.#queue.add(share);
    }
  }
}

interface Among {
  isActive(share: MachineShare): void;
  isAlone(): boolean;
  waits(share: MachineShare): void;
  watch(watched: Watched, share: MachineShare): () => void;
}

class MachineShare implements TimeShare {
  readonly #allowance: Budget;
  readonly #among: Among;
  readonly #pieces = new Set<Piece>();
  /** requests under way, and those that wait for one of these to be over */
  #requests = 0;
  readonly #waiting = new Set<() => void>();
  #isOver = false;

  constructor(now: () => number, among: Among) {
    this.#allowance = newAllowance({ ...unhindered, now });
    this.#among = among;
  }

  get isFull(): boolean {
    return this.#waiting.size >= mostWaiting;
  }

  get hasWaiting(): boolean {
    return this.#pieces.size > 0;
  }

  turn(cost: number): Promise<void> {
    return new Promise((resolve) => this.#begin(cost, resolve));
  }

  spend(cost: number): boolean {
    this.#among.isActive(this);
    this.#allowance.spend(cost);
    return this.#allowance.left() > 0 || this.#isOver || this.#among.isAlone();
  }

  request(cost: number, begin: () => void): () => void {
    let over = false;
    let begun = false;
    const enter = () => {
      this.#waiting.delete(enter);
      this.#requests++;
      // A request that is over already still waits for its turn: starting and cancelling must cost something too.
      this.#begin(cost, () => {
        begun = true;
        if (over || this.#isOver) this.#leave();
        else begin();
      });
    };
    if (this.#requests < mostRequests) enter();
    else this.#waiting.add(enter);
    return () => {
      if (over) return;
      over = true;
      if (!this.#waiting.delete(enter) && begun) this.#leave();
    };
  }

  watch(watched: Watched): () => void {
    return this.#among.watch(watched, this);
  }

  end(): void {
    this.#isOver = true;
    this.#waiting.clear();
    for (const piece of this.#pieces) this.#start(piece);
  }

  /** does the piece that waits longest; returns its cost */
  next(): number {
    const [piece] = this.#pieces;
    return piece ? this.#start(piece) : 0;
  }

  #begin(cost: number, begin: () => void): void {
    this.#among.isActive(this);
    if (this.#isOver || (this.#allowance.left() > 0 && this.#pieces.size === 0)) {
      this.#allowance.spend(cost);
      begin();
      return;
    }
    this.#pieces.add({ cost, begin });
    this.#among.waits(this);
  }

  #start(piece: Piece): number {
    this.#pieces.delete(piece);
    piece.begin();
    return piece.cost;
  }

  #leave(): void {
    this.#requests--;
    const [next] = this.#waiting;
    next?.();
  }
}
