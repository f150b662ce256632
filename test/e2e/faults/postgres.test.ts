/** PostgreSQL restarts, goes away or kills connections under a daemon: nothing is lost and no other daemon gets in. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lockWriter } from "../../../src/store/engines/postgres-lock.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { type PostgresServer, startPostgres } from "../../harness/postgres.ts";
import { stopwatch } from "../../harness/stopwatch.ts";
import { raw } from "../clients.ts";

const undo = new AsyncDisposableStack();
let server: PostgresServer;
let url: string;
let daemon: TestDaemon;

beforeAll(async () => {
  server = await startPostgres(undo);
  url = await server.freshDatabase();
  daemon = await startDaemon(undo, { SANDKEEP_DATABASE_URL: url });
});
afterAll(() => undo.disposeAsync());

test("after a restart of the server the lock is taken again, and a second daemon is refused", async () => {
  const id = await create("over-a-restart");
  await server.stop();
  await server.start();
  const second = await startSecond();
  expect(second).toMatchObject({ code: 1 });
  expect(second.stderr).toContain("Cannot serve: another daemon uses the database");
  expect((await raw(daemon, "GET", "/v2/sandboxes/over-a-restart")).json.session).toMatchObject({
    id,
    status: "running",
  });
  await create("after-a-restart");
});

test("the log says when the server does not answer, why, and when it answers again", async () => {
  await server.stop();
  await eventually("the outage is in the log", () =>
    /The database has not answered for \d+ s: .+\. Requests that need it get 503/.test(daemon.complaints()),
  );
  expect(daemon.complaints()).not.toContain("The database answers again");
  await server.start();
  await eventually("its end is, too", () => daemon.complaints().includes("The database answers again, after "));
  await create("after-an-outage");
});

test("a second daemon is refused also while only the lock's connection is lost", async () => {
  await raw(daemon, "GET", "/v2/sandboxes");
  let hasEnded = false;
  const beginning = startSecond().finally(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    await server.terminate(url, "query like '%pg_try_advisory_lock%' or query like '%claims%'");
    await pause(100);
  }
  expect(await beginning).toMatchObject({ code: 1 });
  await create("beside-a-second");
});

test("connections that are killed under load do not end the daemon or repeat a create", async () => {
  const { pid } = daemon;
  const answers: { name: string; status: number; retryAfter: string | null }[] = [];
  let killed = 0;
  const isOver = () => killed > 20 && answers.filter(({ status }) => status === 200).length > 5;
  const work = async (worker: number) => {
    for (let turn = 0; !isOver(); turn++) {
      const name = `load-${worker}-${turn}`;
      const made = await fetch(`${daemon.url}/v3/sandboxes`, {
        method: "POST",
        headers: { authorization: `Bearer ${daemon.key}`, "content-type": "application/json" },
        body: JSON.stringify({ name, persistent: false }),
      });
      await made.text();
      answers.push({ name, status: made.status, retryAfter: made.headers.get("retry-after") });
      if (made.status === 200) await raw(daemon, "DELETE", `/v2/sandboxes/${name}`);
    }
  };
  const killing = (async () => {
    while (!isOver()) {
      killed += await server.terminate(url, "true");
      await pause(150);
    }
  })();
  await Promise.all([work(1), work(2), work(3), killing]);
  expect(daemon.pid).toBe(pid);
  expect((await raw(daemon, "GET", "/health")).status).toBe(200);
  const strange = answers.filter(({ status, retryAfter }) => status !== 200 && !(status === 503 && retryAfter === "1"));
  expect(strange).toEqual([]);
});

test("a connection that breaks before the daemon has marked it does not end the daemon", async () => {
  const other = new pg.Client({ connectionString: url });
  other.on("error", () => undefined);
  await other.connect();
  let isAlone = false;
  const alone = other.query(lockWriter.replace("_shared", "")).then(() => {
    isAlone = true;
  });
  while (!isAlone) {
    await server.terminate(url, "query not like '%pg_advisory_lock(%'");
    await pause(20);
  }
  await alone;
  const asked = raw(daemon, "GET", "/v2/sandboxes");
  const waiting = await eventually("one waits to be marked", async () => {
    const { rows } = await other.query("select pid from pg_stat_activity where query = $1", [lockWriter]);
    return rows[0];
  });
  // With it the server ends all its connections, without a message to any of them.
  process.kill(waiting.pid, "SIGKILL");
  expect((await asked).status).toBe(200);
  expect(daemon.ended()).toBeUndefined();
});

test("while the server is away requests are answered 503 in bounded time, and afterwards as before", async () => {
  const id = await create("over-an-outage");
  await server.stop();
  const lasted = stopwatch();
  const answer = await fetch(`${daemon.url}/v2/sandboxes/over-an-outage`, {
    headers: { authorization: `Bearer ${daemon.key}` },
  });
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(lasted()).toBeLessThan(25_000);
  await server.start();
  const session = await eventually("it answers again", async () => {
    const { status, json } = await raw(daemon, "GET", "/v2/sandboxes/over-an-outage");
    return status === 200 && json.session;
  });
  expect(session).toMatchObject({ id, status: "running" });
});

test("a daemon that was overtaken writes nothing more, says so and ends; its sandboxes keep running", async () => {
  const id = await create("overtaken");
  process.kill(daemon.pid, "SIGSTOP");
  await server.stop();
  await server.start();
  const other = await openStore({ url }, { exclusive: () => undefined });
  await other.close();
  process.kill(daemon.pid, "SIGCONT");
  await eventually("it has ended", () => daemon.ended() === 1);
  await expect.poll(() => daemon.complaints()).toContain("another daemon has used it since");
  await daemon.start();
  expect((await raw(daemon, "GET", "/v2/sandboxes/overtaken")).json.session).toMatchObject({ id, status: "running" });
});

async function create(name: string): Promise<string> {
  const made = await raw(daemon, "POST", "/v3/sandboxes", { body: { name } });
  expect(made, made.text).toMatchObject({ status: 200 });
  return made.json.session.id;
}

/** another daemon, with a data directory of its own, on the same database */
async function startSecond(): Promise<{ code: number; stderr: string }> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkeep-e2e-"));
  undo.defer(() => rm(dataDir, { recursive: true, force: true }));
  const places = { SANDKEEP_DATA_DIR: dataDir, SANDKEEP_RUN_DIR: join(dataDir, "run"), SANDKEEP_PORT: "0" };
  const env = { ...process.env, ...places, SANDKEEP_DATABASE_URL: url };
  const child = spawn(process.execPath, [join(root, "src/main.ts"), "serve"], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const [code] = await once(child, "exit");
  return { code, stderr };
}
