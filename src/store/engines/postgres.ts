/**
 * PostgreSQL through `pg`. Its connections remember statements, each by a name: one that comes again is not parsed again,
 * and not planned again either where PostgreSQL finds that its plan does not depend on the parameters.
 */

import { createHash } from "node:crypto";
import pg from "pg";
import { type DatabaseLock, lockWriter } from "./postgres-lock.ts";

/** the number of connections, and how long connecting may take, in ms */
const limits = { max: 10, connectionTimeoutMillis: 10_000, keepAlive: true };

/** with a lock, connections are made only while it is held, and each is marked as one of its holder's */
export function openPool(url: string, lock: () => DatabaseLock | undefined): pg.Pool {
  const settings = { connectionString: url, types: { getTypeParser }, idleTimeoutMillis: 0, ...limits };
  // A connection stays once it is made: making one takes longer than most of what it is for.
  const pool = new pg.Pool({ ...settings, Client: clientUnder(lock) });
  // The next query replaces a broken connection; without a listener, the event would end the program.
  pool.on("error", () => undefined);
  pool.on("connect", rememberStatements);
  return pool;
}

type Connected = ((error: Error) => void) | ((error: null, client: pg.Client) => void);

function clientUnder(lock: () => DatabaseLock | undefined) {
  return class LockedClient extends pg.Client {
    override connect(): Promise<pg.Client>;
    override connect(done: Connected): void;
    override connect(done?: Connected): Promise<pg.Client> | undefined {
      const opened = this.#open();
      if (!done) return opened;
      // Either of its two signatures takes the one argument that it is called with here.
      const tell = done as (error: Error | null) => void;
      opened.then(() => tell(null), tell);
      return undefined;
    }

    async #open(): Promise<pg.Client> {
      // The pool hears it of idle ones only. It may break before it is marked, too.
      this.on("error", () => undefined);
      const held = lock();
      await held?.held();
      await super.connect();
      if (held) await this.query(lockWriter);
      return this;
    }
  };
}

/** statements that are remembered, and parameters of one: with more it has a list, whose every length is another one */
const mostStatements = 200;
const mostParameters = 24;

const names = new Map<string, string>();

function rememberStatements(client: pg.PoolClient): void {
  const query: (config: pg.QueryConfig) => Promise<pg.QueryResult> = client.query.bind(client);
  // The query layer asks in this way only.
  const asked = (text: string, values: unknown[]) => {
    const name = values.length === 0 || values.length > mostParameters ? undefined : nameOf(text);
    return query({ text, values, ...(name !== undefined && { name }) });
  };
  Object.assign(client, { query: asked });
}

/** undefined when the limit is reached, as the server keeps statements for each connection */
function nameOf(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size === mostStatements) return known;
  const name = createHash("sha256").update(text).digest("base64url");
  names.set(text, name);
  return name;
}

/** all our integers are milliseconds, bytes and counts, which a number keeps exactly */
const getTypeParser: typeof pg.types.getTypeParser = (id: number, format?: "text" | "binary") =>
  id === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(id, format as "text");
