/** A short queue between one producer and one consumer: the producer waits while it is full. */

export class Queue<T> implements AsyncIterable<T> {
  readonly #limit: number;
  #values: T[] = [];
  #ended = false;
  #error: unknown;
  #closed = false;
  #wakeConsumer: (() => void) | undefined;
  #wakeProducer: (() => void) | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** resolves once there is room for another value; values put after the consumer left are dropped */
  async put(value: T): Promise<void> {
    if (this.#closed || this.#ended) return;
    this.#values.push(value);
    this.#wakeConsumer?.();
    while (this.#values.length >= this.#limit && !this.#closed && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wakeProducer = resolve;
      });
    }
  }

  /** ends the queue; an error reaches the consumer after the queued values */
  end(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#wakeConsumer?.();
    this.#wakeProducer?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      while (true) {
        const value = this.#values.shift();
        if (value !== undefined) {
          this.#wakeProducer?.();
          yield value;
        } else if (this.#ended) {
          if (this.#error !== undefined) throw this.#error;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wakeConsumer = resolve;
          });
        }
      }
    } finally {
      this.#closed = true;
      this.#values = [];
      this.#wakeProducer?.();
    }
  }
}
