/**
 * Limits how fast work is done that many sources cause, so that it leaves the event loop time for everything else. A turn
 * is a batch of work. One turn is granted at a time, with a pause after it. Groups take turns, and so do the members of a
 * group by their arrival: a group with many members is not served more often than one with a single member.
 */

export class Pace {
  readonly #pause: number;
  /** those that wait, by group; the first group is next */
  readonly #waiting = new Map<object, (() => void)[]>();
  #isPausing = false;

  /** @param pause time between two turns, in ms */
  constructor(pause: number) {
    this.#pause = pause;
  }

  /** resolves when a batch of this group may be done */
  turn(group: object): Promise<void> {
    return new Promise((resolve) => {
      const members = this.#waiting.get(group);
      if (members) members.push(resolve);
      else this.#waiting.set(group, [resolve]);
      if (!this.#isPausing) this.#grantLater();
    });
  }

  #grantLater(): void {
    this.#isPausing = true;
    setTimeout(() => {
      this.#isPausing = false;
      this.#grant();
    }, this.#pause);
  }

  #grant(): void {
    const [next] = this.#waiting;
    if (!next) return;
    const [group, members] = next;
    // A group that still has members waiting goes behind the others.
    this.#waiting.delete(group);
    members.shift()?.();
    if (members.length > 0) this.#waiting.set(group, members);
    if (this.#waiting.size > 0) this.#grantLater();
  }
}
