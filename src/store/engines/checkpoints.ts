/**
 * Brings what SQLite's log holds into the database, in a thread of its own. SQLite would do this in whichever commit
 * makes the log long, and wait for the disk twice meanwhile; every request would wait with it.
 */

import { Worker } from "node:worker_threads";
import { SharedRun } from "../../base/concurrency/single-flight.ts";
import { siblingProgram } from "../../base/files/sibling-program.ts";
import type { Order, Outcome } from "./checkpoint-thread.ts";

/** how many commits go by between two checkpoints */
const commitsBetween = 100;
/** how long the thread stays without work, in ms */
const lingersFor = 10_000;

const program = siblingProgram(import.meta, "checkpoint-thread");

export class Checkpoints {
  readonly #path: string;
  #commits = 0;
  #thread: Worker | undefined;
  readonly #runs = new SharedRun<void>();
  #answer: ((outcome?: Outcome) => void) | undefined;
  #idle: NodeJS.Timeout | undefined;
  /** how many want that none begins */
  #held = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** counts a commit, and begins a checkpoint when it is time for one */
  committed(): void {
    this.#commits++;
    if (this.#commits < commitsBetween || this.#runs.current || this.#held > 0) return;
    this.#commits = 0;
    void this.#runs.run(() => this.#run());
  }

  /** does work that must not meet a checkpoint */
  async without<T>(work: () => Promise<T>): Promise<T> {
    this.#held++;
    try {
      await this.#runs.current;
      return await work();
    } finally {
      this.#held--;
    }
  }

  /** ends the thread, which would otherwise keep the log's files open */
  async close(): Promise<void> {
    this.#held++;
    await this.#runs.current;
    await this.#end();
  }

  /** never rejects: what could not be done is left to the next one, and in the end to a commit */
  async #run(): Promise<void> {
    clearTimeout(this.#idle);
    this.#thread ??= this.#start();
    const thread = this.#thread;
    thread.ref();
    thread.postMessage("checkpoint" satisfies Order);
    const outcome = await new Promise<Outcome | undefined>((resolve) => {
      this.#answer = resolve;
    });
    thread.unref();
    if (outcome?.isDone) this.#idle = setTimeout(() => this.#end(), lingersFor).unref();
    else await this.#end();
  }

  #start(): Worker {
    const thread = new Worker(program, { workerData: this.#path, execArgv: [] });
    thread.on("message", (outcome: Outcome) => this.#answer?.(outcome));
    // Without a listener an error of the thread would be one of the daemon. Its end follows.
    thread.on("error", () => undefined);
    thread.on("exit", () => this.#answer?.());
    return thread;
  }

  async #end(): Promise<void> {
    clearTimeout(this.#idle);
    const thread = this.#thread;
    this.#thread = undefined;
    if (!thread || thread.threadId === -1) return;
    thread.ref();
    const exit = new Promise((resolve) => thread.once("exit", resolve));
    thread.postMessage("close" satisfies Order);
    await exit;
  }
}
