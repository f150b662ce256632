/**
 * The wall clock, and what happens when somebody sets it. Times are kept and shown by the wall clock; how long something
 * may still take must not depend on it. So a jump of the wall clock against a clock that nobody sets is noticed, and the
 * ends of sessions that run are moved by as much: each has the time left that it had before.
 */

export type Now = () => number;

/** what the wall clock may differ between two looks, in ms: a clock that is adjusted slowly never does */
const tolerance = 1000;

export class Clock {
  readonly #wall: Now;
  readonly #steady: Now;
  #offset: number;
  #moved: Promise<void> = Promise.resolve();
  /** moves what was to happen at a time by the wall clock by so many ms */
  move: (by: number) => Promise<void> = async () => undefined;

  constructor(wall: Now, steady: Now) {
    this.#wall = wall;
    this.#steady = steady;
    this.#offset = wall() - steady();
  }

  /** by the wall clock */
  now(): number {
    const at = this.#wall();
    const offset = at - this.#steady();
    const by = Math.round(offset - this.#offset);
    this.#offset = offset;
    if (Math.abs(by) > tolerance) this.#moved = this.#moved.then(() => this.move(by));
    return at;
  }

  /** by the wall clock, once everything is moved to it that a jump has left behind */
  async settled(): Promise<number> {
    for (;;) {
      const at = this.now();
      const moved = this.#moved;
      await moved;
      if (moved === this.#moved) return at;
    }
  }
}
