/**
 * The wall clock, and what happens when it is set. Stored and shown times are wall-clock times, but the time that a
 * session has left must not depend on the wall clock. So the clock compares it with a monotonic clock. When the wall
 * clock jumps, it moves the ends of running sessions by as much: each keeps the time that it had left.
 */

export type Now = () => number;

/** largest drift of the wall clock between two reads, in ms; slow adjustment stays below it */
const tolerance = 1000;

export class Clock {
  readonly #wall: Now;
  readonly #steady: Now;
  #offset: number;
  #moved: Promise<void> = Promise.resolve();
  /** moves every planned wall-clock time by so many ms */
  move: (by: number) => Promise<void> = async () => undefined;

  constructor(wall: Now, steady: Now) {
    this.#wall = wall;
    this.#steady = steady;
    this.#offset = wall() - steady();
  }

  /** the wall-clock time */
  now(): number {
    const at = this.#wall();
    const offset = at - this.#steady();
    const by = Math.round(offset - this.#offset);
    this.#offset = offset;
    if (Math.abs(by) > tolerance) this.#moved = this.#moved.then(() => this.move(by));
    return at;
  }

  /** the wall-clock time, once all planned times have been moved after a jump */
  async settled(): Promise<number> {
    for (;;) {
      const at = this.now();
      const moved = this.#moved;
      await moved;
      if (moved === this.#moved) return at;
    }
  }
}
