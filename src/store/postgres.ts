/**
 * PostgreSQL through `pg`. Its connections remember statements, each by a name: one that comes again is not parsed again,
 * and not planned again either where PostgreSQL finds that its plan does not depend on the parameters.
 */

import { createHash } from "node:crypto";
import pg from "pg";

/** connections at once, and ms until one that cannot be made is given up */
const limits = { max: 10, connectionTimeoutMillis: 10_000, keepAlive: true };

export function openPool(url: string): pg.Pool {
  // A connection stays once it is made: making one takes longer than most of what it is for.
  const pool = new pg.Pool({ connectionString: url, types: { getTypeParser }, idleTimeoutMillis: 0, ...limits });
  // An idle connection that breaks is replaced by whoever needs one next; unheard, the event would end the program.
  pool.on("error", () => undefined);
  pool.on("connect", rememberStatements);
  return pool;
}

/** a connection that has an advisory lock for as long as it lasts; undefined when another has it */
export async function lockDatabase(url: string, lock: number): Promise<pg.Client | undefined> {
  const client = new pg.Client({ connectionString: url, ...limits });
  client.on("error", () => undefined);
  await client.connect();
  const { rows } = await client.query<{ taken: boolean }>(`select pg_try_advisory_lock(${lock}) as taken`);
  if (rows[0]?.taken) return client;
  await client.end();
  return undefined;
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

/** undefined when there are too many already, as the server keeps them for each connection */
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
