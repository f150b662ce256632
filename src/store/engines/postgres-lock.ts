/**
 * One daemon for a PostgreSQL database, also when connections break.
 *
 *   DAEMON   held by one connection of the daemon, the holder, for as long as it serves
 *   WRITER   held, shared, by every pooled connection of the daemon
 *
 * A daemon that starts needs both for a moment, DAEMON alone from then on. So as long as one connection of the daemon
 * before it lives, it does not start. A holder that breaks takes DAEMON again; until it has, no pooled connection is made.
 * After a restart of the server another daemon may have been faster: it has counted `epoch` up, and this one ends.
 */

import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { within } from "../../base/concurrency/waits.ts";
import { messageOf, SandkeepError } from "../../core/model/errors.ts";

// Arbitrary numbers that no other user of the same database takes.
const DAEMON = 7_392_640_118;
const WRITER = 7_392_640_120;

/** how long a start waits for the connections of the last daemon to go, how often it looks, and how long one may wait
 * for the lock to be taken again, in ms */
const startPatience = 5000;
const retryEvery = 100;
const retakePatience = 8000;
/** how long an outage lasts before it is reported, in ms: a restart of the server is often over by then */
const reportedAfter = 1000;
/** for a connection to the server, in ms */
const connectPatience = 5000;

/** the statement by which a pooled connection names its owner */
export const lockWriter = `select pg_advisory_lock_shared(${WRITER})`;

export class DatabaseLock {
  readonly #url: string;
  readonly #lost: (error: SandkeepError) => void;
  readonly #warn: (sentence: string) => void;
  #holder: pg.Client | undefined;
  #epoch: number | undefined;
  #held = Promise.withResolvers<void>();
  #isClosed = false;

  /** `lost` is called when another daemon has taken the database over, `warn` when an outage is long and when it ends */
  constructor(url: string, lost: (error: SandkeepError) => void, warn: (sentence: string) => void) {
    this.#url = url;
    this.#lost = lost;
    this.#warn = warn;
    this.#held.promise.catch(() => undefined);
  }

  /** false when another daemon has it, and keeps it */
  async take(): Promise<boolean> {
    if (this.#holder) return true;
    const deadline = performance.now() + startPatience;
    const client = await this.#connect();
    while (!(await takeBoth(client))) {
      if (performance.now() > deadline) {
        await client.end();
        return false;
      }
      await pause(retryEvery);
    }
    this.#hold(client);
    return true;
  }

  /** call once the schema exists: from now on, a lock that was lost and taken again shows whether another daemon had it */
  async begin(): Promise<void> {
    const { rows } = await this.#client().query<{ epoch: string }>(
      "insert into claims (slot, epoch) values (1, 1) on conflict (slot) do update set epoch = claims.epoch + 1 returning epoch",
    );
    this.#epoch = Number(rows[0]?.epoch);
  }

  /** resolves while the lock is held; otherwise waits for it, up to a limit */
  async held(): Promise<void> {
    const isHeld = await within(
      this.#held.promise.then(() => true),
      retakePatience,
    );
    if (!isHeld) throw new SandkeepError("unavailable", "Cannot use the database: its lock is being taken again");
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#holder?.end().catch(() => undefined);
  }

  #client(): pg.Client {
    if (!this.#holder) throw new SandkeepError("conflict", "Cannot use the database's lock: it was not taken");
    return this.#holder;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: connectPatience,
      keepAlive: true,
    });
    // Without a listener, the event would end the program; the holder of the lock notices the end itself.
    client.on("error", () => undefined);
    await client.connect();
    return client;
  }

  #hold(client: pg.Client): void {
    this.#holder = client;
    this.#held.resolve();
    client.once("end", () => {
      this.#held = Promise.withResolvers<void>();
      this.#held.promise.catch(() => undefined);
      if (!this.#isClosed) void this.#retake();
    });
  }

  async #retake(): Promise<void> {
    const begun = performance.now();
    let isReported = false;
    let why = "another connection holds its lock";
    while (!this.#isClosed) {
      const isSettled = await this.#tryRetake().catch((error: unknown) => {
        why = messageOf(error);
        return undefined;
      });
      const lasted = performance.now() - begun;
      if (isSettled) {
        if (isReported && !this.#isClosed) this.#warn(`The database answers again, after ${seconds(lasted)}`);
        return;
      }
      if (!isReported && lasted > reportedAfter && !this.#isClosed) {
        isReported = true;
        const meanwhile = "Requests that need it get 503 until it is back; sandboxes keep running";
        this.#warn(`The database has not answered for ${seconds(lasted)}: ${why}. ${meanwhile}`);
      }
      await pause(retryEvery);
    }
  }

  /** whether that is settled, one way or the other */
  async #tryRetake(): Promise<boolean | undefined> {
    const client = await this.#connect();
    try {
      if (!(await asked(client, `select pg_try_advisory_lock(${DAEMON}) as done`))) {
        await client.end();
        return undefined;
      }
      const { rows } = await client.query<{ epoch: string }>("select epoch from claims");
      if (this.#epoch === undefined || Number(rows[0]?.epoch) === this.#epoch) {
        this.#hold(client);
        return true;
      }
    } catch (error) {
      await client.end().catch(() => undefined);
      throw new SandkeepError("unavailable", `Cannot take the database's lock: ${messageOf(error)}`, { cause: error });
    }
    this.#isClosed = true;
    await client.end();
    const why = "the connection to it was lost, and another daemon has used it since";
    this.#lost(new SandkeepError("conflict", `Cannot continue with the database: ${why}`));
    return true;
  }
}

/** WRITER first: a daemon whose holder alone was lost is not disturbed in taking DAEMON again */
async function takeBoth(client: pg.Client): Promise<boolean> {
  if (!(await asked(client, `select pg_try_advisory_lock(${WRITER}) as done`))) return false;
  const taken = await asked(client, `select pg_try_advisory_lock(${DAEMON}) as done`);
  await client.query(`select pg_advisory_unlock(${WRITER})`);
  return taken;
}

async function asked(client: pg.Client, sql: string): Promise<boolean> {
  const { rows } = await client.query<{ done: boolean }>(sql);
  return rows[0]?.done ?? false;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
