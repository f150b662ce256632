/**
 * Statements of the most frequent calls. The query layer builds and compiles a statement each time, and several promises
 * pass before it runs; that takes longer than the statement itself. Here each statement is compiled once.
 *
 * SQLite has one connection, and a statement ends before the next line of JavaScript runs. So a statement, or a whole
 * transaction, runs at once. It waits in the query layer's queue only while that has a transaction open, or while another
 * program has locked the file.
 */

import type { Compilable, CompiledQuery } from "kysely";
import type { Database } from "../tables.ts";

/** Runs compiled statements. */
export interface Statements {
  all<R>(query: CompiledQuery<R>): Promise<R[]>;
  /** the first row */
  first<R>(query: CompiledQuery<R>): Promise<R | undefined>;
  /** runs the steps in one transaction; if it cannot begin now, it calls `steps` again later */
  transaction<T>(steps: () => Steps<T>): Promise<T>;
}

/** The steps of a transaction: yields each statement and receives its rows. */
export type Steps<T> = Generator<CompiledQuery<unknown>, T, unknown[]>;

/** A connection that runs statements without waiting. */
export interface Immediate {
  /** whether a transaction is open, to which a statement would belong */
  readonly isTransaction: boolean;
  run(query: CompiledQuery<unknown>): unknown[];
  begin(): void;
  commit(): void;
  rollback(): void;
}

export interface StatementsOptions {
  db: Database;
  /** undefined before the database is opened, and for engines that have no such connection */
  immediate?: () => Immediate | undefined;
  /** whether an error means that another program has locked the database, so that nothing happened */
  isLocked?: (error: unknown) => boolean;
}

export function statementsOf({ db, immediate, isLocked = () => false }: StatementsOptions): Statements {
  /** the result of work that runs at once; undefined if it has to wait */
  const atOnce = <T>(work: (connection: Immediate) => T): { result: T } | undefined => {
    const connection = immediate?.();
    if (!connection || connection.isTransaction) return undefined;
    try {
      return { result: work(connection) };
    } catch (error) {
      if (isLocked(error)) return undefined;
      throw error;
    }
  };
  const all = async <R>(query: CompiledQuery<R>): Promise<R[]> => {
    const done = atOnce((connection) => connection.run(query));
    // The query's type says what its rows are.
    return done ? (done.result as R[]) : (await db.executeQuery(query)).rows;
  };
  return {
    all,
    first: async (query) => (await all(query))[0],
    async transaction(steps) {
      const done = atOnce((connection) => transact(connection, steps()));
      if (done) return done.result;
      return db.transaction().execute(async (tx) => {
        const work = steps();
        let step = work.next([]);
        while (!step.done) step = work.next((await tx.executeQuery(step.value)).rows);
        return step.value;
      });
    },
  };
}

function transact<T>(connection: Immediate, work: Steps<T>): T {
  connection.begin();
  try {
    let step = work.next([]);
    while (!step.done) step = work.next(connection.run(step.value));
    connection.commit();
    return step.value;
  } catch (error) {
    // After some errors, such as a full disk, SQLite has rolled back by itself.
    if (connection.isTransaction) connection.rollback();
    throw error;
  }
}

/** a step of a transaction; its result is the statement's rows */
export function* step<R>(query: CompiledQuery<R>): Generator<CompiledQuery<unknown>, R[], unknown[]> {
  // The query's type says what its rows are.
  return (yield query) as R[];
}

/** Stands in a compiled statement for a value that comes later. */
class Place {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * A statement that is compiled once for each set of names in `values`. `build` gets places instead of the values, so it
 * may use them only as parameters.
 */
export function statement<V extends object, R>(build: (values: V) => Compilable<R>): (values: V) => CompiledQuery<R> {
  const known = new Map<string, CompiledQuery<R>>();
  return (values) => {
    const names = Object.keys(values);
    const key = names.join();
    let compiled = known.get(key);
    if (!compiled) {
      const places = Object.fromEntries(names.map((name) => [name, new Place(name)]));
      compiled = build(places as V).compile();
      known.set(key, compiled);
    }
    const parameters = compiled.parameters.map((each) =>
      each instanceof Place ? Reflect.get(values, each.name) : each,
    );
    return { ...compiled, parameters };
  };
}
