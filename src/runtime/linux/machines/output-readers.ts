/**
 * Who follows the output of a running command, and how much of it the agent may therefore delete. A journal has a bound:
 * without readers its oldest output goes first. With readers the command waits at the bound until the slowest of them has
 * caught up, so that none of them misses a byte. A reader that takes nothing for a while no longer counts: a client that
 * has fallen asleep must not stop a program for ever.
 */

export interface OutputReadersOptions {
  /** bytes of output that the journal keeps */
  limit: number;
  /** tells the agent that output before an offset may go; Infinity for all output, now and later */
  spare: (offset: number) => void;
}

export interface OutputReader {
  /** it has taken everything before this offset */
  taken(offset: number): void;
  close(): void;
}

interface Reader {
  offset: number;
  /** where it was at the last check */
  checked: number;
  /** it took nothing between two checks */
  stalled: boolean;
}

/** ms that a command waits for its first reader once it has printed a good part of the limit */
const firstReaderWait = 2000;
/** ms from one check for stalled readers to the next; a reader is stalled after one to two of these */
const checkInterval = 15_000;

export class OutputReaders {
  readonly #options: OutputReadersOptions;
  readonly #readers = new Set<Reader>();
  readonly #began = performance.now();
  #end = 0;
  /** what the agent was told last */
  #spared = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: OutputReadersOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#readers.size;
  }

  add(offset: number): OutputReader {
    const reader: Reader = { offset, checked: -1, stalled: false };
    this.#readers.add(reader);
    this.#update();
    return {
      taken: (end) => {
        reader.offset = end;
        reader.stalled = false;
        this.#update();
      },
      close: () => {
        this.#readers.delete(reader);
        this.#update();
      },
    };
  }

  grew(end: number): void {
    this.#end = end;
    this.#update();
  }

  /** tells an agent that may not know it: it forgets with the connection, and hears nothing while it is paused */
  renew(): void {
    if (!this.#closed) this.#tell(this.#needed());
  }

  /** the command has ended */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** offset of the first byte that a reader still needs */
  #needed(): number {
    return Math.min(...[...this.#readers].filter(({ stalled }) => !stalled).map(({ offset }) => offset), Infinity);
  }

  #update(): void {
    if (this.#closed) return;
    if (this.#spared === Infinity) {
      // All output may go, until a reader comes or goes on.
      const needed = this.#needed();
      if (needed < Infinity) this.#tell(needed);
      return;
    }
    const { limit } = this.#options;
    // A journal of very small records is full with a quarter of its limit.
    if (this.#end - this.#spared < limit / 8) return;
    const needed = this.#needed();
    const early = needed === Infinity && performance.now() - this.#began < firstReaderWait;
    if (!early && needed - this.#spared >= limit / 16) this.#tell(needed);
    else this.#timer ??= setTimeout(() => this.#check(), early ? firstReaderWait : checkInterval).unref();
  }

  #check(): void {
    this.#timer = undefined;
    for (const reader of this.#readers) {
      if (reader.offset === reader.checked && reader.offset < this.#end) reader.stalled = true;
      reader.checked = reader.offset;
    }
    this.#update();
  }

  #tell(offset: number): void {
    this.#spared = offset;
    this.#options.spare(offset);
  }
}
