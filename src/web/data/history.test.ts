/** What has happened in a sandbox, over several sessions. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";

const asked: string[] = [];
const session = (id: string, sandboxId: string, endedAt: number | null) => ({ id, sandboxId, endedAt, createdAt: 5 });
const all = [session("sbx_2", "sb_1", null), session("sbx_1", "sb_1", 100), session("sbx_0", "sb_deleted", 50)];
const bucket = {
  commands: { started: 1, failed: 0, running: 2 },
  egress: { allowed: 3, refused: 1 },
};

function answerTo(path: string, limit: number): object {
  if (path === "/sessions") return { sessions: all.slice(0, limit), next: "a cursor" };
  if (path === "/snapshots") return { snapshots: [] };
  if (path.endsWith("/tape")) return { buckets: [bucket, bucket] };
  const [, , id = "", kind] = path.split("/");
  if (kind === "commands") {
    const next = id === "sbx_1" ? "a cursor" : null;
    return { commands: [{ id: `cmd of ${id}`, sessionId: id, endedAt: 60 }], next };
  }
  if (kind === "usage") return { samples: [{ at: 7, processors: 1 }] };
  if (id === "sbx_gone") return { error: { code: "gone", message: "The log is gone" } };
  const events = [{ id: 1, at: 1, count: 1, allowed: id !== "sbx_1" }];
  const traffic = { hosts: [{ bytesIn: 5, bytesOut: 6 }], ports: [{ port: 80, bytesIn: 70, bytesOut: 80 }] };
  return { events, next: 1, more: false, ...traffic };
}

beforeAll(() => {
  vi.stubGlobal("location", { origin: "http://127.0.0.1:7700", href: "http://127.0.0.1:7700/ui/", pathname: "/ui/" });
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async (request: Request) => {
    const { pathname, searchParams } = new URL(request.url);
    const path = pathname.replace("/sandkeep/v1", "");
    const from = searchParams.get("from");
    asked.push(from === null || path.endsWith("egress") ? path : `${path}?from=${from}`);
    const status = path.includes("sbx_gone/egress") ? 410 : 200;
    return Response.json(answerTo(path, Number(searchParams.get("limit"))), { status });
  });
});
afterAll(() => vi.unstubAllGlobals());

const sandbox = { id: "sb_1", name: "demo" };

test("commands of earlier sessions are there, and are read once; the tape begins with the first session", async () => {
  const { readHistory } = await import("./history.ts");
  const { signal } = new AbortController();
  const history = await readHistory(sandbox, 3, signal);
  expect(history.commands.map(({ id }) => id)).toEqual(["cmd of sbx_2", "cmd of sbx_1"]);
  expect(history.hasMoreCommands).toBe(true);
  expect(history.totals).toEqual({ commands: 2, allowed: 6, refused: 2 });

  asked.length = 0;
  await readHistory(sandbox, 3, signal);
  expect(asked.toSorted()).toEqual([
    "/sandboxes/demo/tape?from=5",
    "/sessions",
    "/sessions/sbx_2/commands",
    "/snapshots",
  ]);
});

test("samples of a session are read on from the last one, and those of one that has ended once", async () => {
  const { readSamples } = await import("./samples.ts");
  const { signal } = new AbortController();
  asked.length = 0;
  await readSamples({ id: "sbx_9", endedAt: null }, signal);
  // The daemon of this test answers with the same sample again, as it would to two reads at the same time.
  expect(await readSamples({ id: "sbx_9", endedAt: null }, signal)).toEqual([{ at: 7, processors: 1 }]);
  await readSamples({ id: "sbx_9", endedAt: 9 }, signal);
  await readSamples({ id: "sbx_9", endedAt: 9 }, signal);
  expect(asked).toEqual([
    "/sessions/sbx_9/usage/samples",
    "/sessions/sbx_9/usage/samples?from=8",
    "/sessions/sbx_9/usage/samples?from=8",
  ]);
});

test("logs of earlier sessions are read once, and one that is gone is said to be", async () => {
  const { readLogs } = await import("../egress/egress-log.ts");
  const sessions = [
    { id: "sbx_2", endedAt: null },
    { id: "sbx_1", endedAt: 100 },
    { id: "sbx_gone", endedAt: 50 },
  ];
  const { logs, gone } = await readLogs(sessions);
  expect(logs.flatMap(({ lines }) => lines.map(({ sessionId }) => sessionId))).toEqual(["sbx_1", "sbx_2"]);
  expect(logs[0]).toMatchObject({ hosts: [{ bytesIn: 5 }], ports: [{ port: 80, bytesIn: 70 }] });
  expect(gone).toEqual(["sbx_gone"]);
  asked.length = 0;
  expect((await readLogs(sessions)).gone).toEqual(["sbx_gone"]);
  expect(asked).toEqual(["/sessions/sbx_2/egress"]);
});

test("older sessions are offered only as far as they are of the same sandbox", async () => {
  const { readHistory } = await import("./history.ts");
  const { signal } = new AbortController();
  expect((await readHistory(sandbox, 2, signal)).hasOlder).toBe(true);
  expect((await readHistory(sandbox, 3, signal)).hasOlder).toBe(false);
});
