/** The lists of every API over HTTP, from a daemon with a million sessions on record, on both engines. */

import { join } from "node:path";
import { defaultProject, defaultTeam } from "../src/core/access/access.ts";
import type { StoreLocation } from "../src/store/sql-store.ts";
import { noon } from "../test/conformance/store/host.ts";
import { connect, eras, veryfrontPath } from "../test/e2e/mcp/mcp.ts";
import { type Settings, startDaemon, type TestDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { interleaved, quantile, type Subject, table, verdict } from "./measure.ts";
import { fillStore } from "./store/rows.ts";
import { subject } from "./store/sessions.ts";

const rounds = 300;
const owner = { teamId: defaultTeam.id, projectId: defaultProject.id };

export async function benchLists(undo: Undo, rows: number): Promise<string> {
  const server = await startPostgres(undo, { durable: true });
  const url = await server.freshDatabase();
  const sqlite = await benchEngine("SQLite", {}, (dataDir) => ({ path: join(dataDir, "sandkeep.db") }), rows);
  const postgres = await benchEngine("PostgreSQL", { SANDKEEP_DATABASE_URL: url }, () => ({ url }), rows);
  return `${sqlite}\n\n${postgres}`;
}

async function benchEngine(
  name: string,
  settings: Settings,
  location: (dataDir: string) => StoreLocation,
  rows: number,
): Promise<string> {
  await using undo = new AsyncDisposableStack();
  const daemon = await startDaemon(undo, settings);
  // The daemon has made its tables and its project.
  await daemon.stop();
  await fillStore(location(daemon.dataDir), owner, rows);
  await daemon.start();
  const series = await interleaved(await listsOf(daemon, rows, undo), rounds, 20);
  return [
    table(`${rows} sessions on ${name}, over HTTP`, series),
    ...series.map(({ name, samples }) => verdict(`p99 of ${name}`, quantile(samples, 0.99), 10, "ms")),
  ].join("\n");
}

async function listsOf(daemon: TestDaemon, rows: number, undo: Undo): Promise<Subject[]> {
  const headers = { authorization: `Bearer ${daemon.key}` };
  const list = (name: string, path: (round: number) => string) =>
    subject(name, async (round) => {
      const answer = await fetch(`${daemon.url}${path(round)}`, { headers });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${name}: ${answer.status} ${text}`);
    });
  const tools = await Promise.all(
    eras.map(async (era) => {
      const client = await connect(daemon, era, undo, veryfrontPath);
      return subject(`MCP list_sandbox_sessions, ${era}`, async () => {
        const { isError } = await client.callTool({ name: "list_sandbox_sessions", arguments: {} });
        if (isError) throw new Error("list_sandbox_sessions failed");
      });
    }),
  );
  const somewhere = (round: number) => noon + ((round * 611_953) % rows);
  const metadata = (round: number) => encodeURIComponent(JSON.stringify({ user: (round * 31) % 10_000 }));
  return [
    list("GET /v2/sandboxes/sessions", () => "/v2/sandboxes/sessions?project=prj_default&limit=20"),
    list("GET /v1/sandboxes with total", () => "/v1/sandboxes?project=prj_default&limit=20"),
    list("the same until a time", (i) => `/v1/sandboxes?project=prj_default&limit=20&until=${somewhere(i)}`),
    list("GET /v1/sessions/sandboxes?metadata=…, 100 match", (i) => `/v1/sessions/sandboxes?metadata=${metadata(i)}`),
    list("GET /sandbox-sessions", () => "/sandbox-sessions?limit=20"),
    ...tools,
  ];
}
