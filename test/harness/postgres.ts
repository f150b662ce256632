/**
 * A real PostgreSQL for tests and benchmarks, from the host's package: a server in a temporary directory, reached
 * through a socket in that directory and not over any network.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, glob } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { eventually, tempDir, type Undo } from "./harness.ts";

export interface PostgresServer {
  /** the URL of an empty database */
  freshDatabase(): Promise<string>;
  /** the URL of a copy of a database that no client uses */
  copyOf(url: string): Promise<string>;
  /** stops it like an operator: clients are disconnected, committed data stays */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** ends the server's connections that match this condition on pg_stat_activity; returns their number */
  terminate(url: string, condition: string): Promise<number>;
}

export interface PostgresOptions {
  /** whether commits wait for the disk; tests do not need that */
  durable?: boolean;
}

/** Starts a server; `undo` ends it and deletes its files. */
export async function startPostgres(undo: Undo, { durable = false }: PostgresOptions = {}): Promise<PostgresServer> {
  const directory = await tempDir(undo);
  const programs = await programsDirectory();
  const asOwner = await ownerOf(directory);
  const data = join(directory, "data");
  const initdb = ["--pgdata", data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"];
  // Text in dictionary order, as on many servers: queries that need the order of bytes must say so.
  const order = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en"];
  await promisify(execFile)("setpriv", [...asOwner, join(programs, "initdb"), ...initdb, ...order]);

  const settings = { listen_addresses: "", unix_socket_directories: directory, fsync: durable ? "on" : "off" };
  const urlOf = (database: string) => `postgres:///${database}?host=${encodeURIComponent(directory)}&user=postgres`;
  const begin = async () => {
    const server = spawn(
      "setpriv",
      [
        // The server also ends if its test is killed.
        ...["--pdeathsig", "INT", ...asOwner, join(programs, "postgres"), "-D", data],
        ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ],
      { stdio: "ignore" },
    );
    undo.defer(() => endServer(server));
    await eventually("PostgreSQL answers", () => run(urlOf("postgres"), "select 1"));
    return server;
  };
  let server = await begin();

  let databases = 0;
  const created = async (how: string) => {
    databases++;
    await run(urlOf("postgres"), `create database fresh_${databases} ${how}`);
    return urlOf(`fresh_${databases}`);
  };
  return {
    stop: () => endServer(server),
    async start() {
      server = await begin();
    },
    async terminate(url, condition) {
      const mine = `datname = '${nameOf(url)}' and pid <> pg_backend_pid()`;
      const sql = `select pg_terminate_backend(pid) from pg_stat_activity where ${mine} and (${condition})`;
      return (await query(urlOf("postgres"), sql)).length;
    },
    freshDatabase: () => created(""),
    copyOf: (url) => created(`template ${nameOf(url)}`),
  };
}

function nameOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

/** the newest installed version; Debian's package puts its programs outside of PATH */
async function programsDirectory(): Promise<string> {
  const found = await Array.fromAsync(glob("/usr/lib/postgresql/*/bin"));
  const newest = found.sort((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
  if (newest === undefined) throw new Error("Cannot start PostgreSQL: the package postgresql is not installed");
  return newest;
}

/** PostgreSQL refuses to run as root: then it runs as the user of its package, who gets the directory. */
async function ownerOf(directory: string): Promise<string[]> {
  if (process.getuid?.() !== 0) return [];
  const { stdout } = await promisify(execFile)("id", ["-u", "postgres"]);
  await chown(directory, Number(stdout), -1);
  return ["--reuid", "postgres", "--regid", "postgres", "--init-groups"];
}

async function endServer(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, "exit");
  // "Fast shutdown": clients are disconnected, not waited for.
  server.kill("SIGINT");
  await exited;
}

async function run(url: string, sql: string): Promise<boolean> {
  await query(url, sql);
  return true;
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
