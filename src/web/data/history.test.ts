/** What has happened in a sandbox, over several sessions. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";

const asked: string[] = [];
const session = (id: string, sandboxId: string, endedAt: number | null) => ({ id, sandboxId, endedAt });
const all = [session("sbx_2", "sb_1", null), session("sbx_1", "sb_1", 100), session("sbx_0", "sb_deleted", 50)];

function answerTo(path: string, limit: number): object {
  if (path === "/sessions") return { sessions: all.slice(0, limit), next: "a cursor" };
  if (path === "/snapshots") return { snapshots: [] };
  const [, , id = "", kind] = path.split("/");
  if (kind === "commands") return { commands: [{ id: `cmd of ${id}`, sessionId: id, endedAt: 60 }], next: null };
  if (kind === "usage") return { samples: [{ at: 7, processors: 1 }] };
  const events = [{ id: 1, at: 1, count: 1, allowed: id !== "sbx_1" }];
  return { events, next: 1, more: false, hosts: [{ bytesIn: 5, bytesOut: 6 }], ports: [{ bytesIn: 70, bytesOut: 80 }] };
}

beforeAll(() => {
  vi.stubGlobal("location", { origin: "http://127.0.0.1:7700", href: "http://127.0.0.1:7700/ui/", pathname: "/ui/" });
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("fetch", async (request: Request) => {
    const { pathname, searchParams } = new URL(request.url);
    const path = pathname.replace("/sandkeep/v1", "");
    const from = searchParams.get("from");
    asked.push(from === null || path.endsWith("egress") ? path : `${path}?from=${from}`);
    return Response.json(answerTo(path, Number(searchParams.get("limit"))));
  });
});
afterAll(() => vi.unstubAllGlobals());

test("commands and connections of earlier sessions are there, and are read once", async () => {
  const { readHistory } = await import("./history.ts");
  const { signal } = new AbortController();
  const sandbox = { id: "sb_1", name: "demo", session: { id: "sbx_2" } };
  const history = await readHistory(sandbox, 3, signal);
  expect(history.commands.map(({ id }) => id)).toEqual(["cmd of sbx_2", "cmd of sbx_1"]);
  expect(history.lines.map(({ sessionId }) => sessionId)).toEqual(["sbx_1", "sbx_2"]);
  expect(history.refused).toBe(1);
  const [earlier, ...others] = history.earlier;
  expect(others).toEqual([]);
  expect(earlier).toMatchObject({ lines: [{ sessionId: "sbx_1" }], hosts: { bytesIn: 5 }, ports: { bytesIn: 70 } });

  asked.length = 0;
  await readHistory(sandbox, 3, signal);
  expect(asked.toSorted()).toEqual([
    "/sessions",
    ...["commands", "egress", "usage/samples?from=8"].map((what) => `/sessions/sbx_2/${what}`),
    "/snapshots",
  ]);
});

test("samples of a session are read on from the last one", async () => {
  const { readSamples } = await import("./samples.ts");
  const { signal } = new AbortController();
  asked.length = 0;
  await readSamples("sbx_9", signal);
  // The daemon of this test answers with the same sample again, as it would to two reads at the same time.
  expect(await readSamples("sbx_9", signal)).toEqual([{ at: 7, processors: 1 }]);
  expect(asked).toEqual(["/sessions/sbx_9/usage/samples", "/sessions/sbx_9/usage/samples?from=8"]);
});

test("older sessions are offered only as far as they are of the same sandbox", async () => {
  const { readHistory } = await import("./history.ts");
  const { signal } = new AbortController();
  const sandbox = { id: "sb_1", name: "demo", session: { id: "sbx_2" } };
  expect((await readHistory(sandbox, 2, signal)).hasOlder).toBe(true);
  expect((await readHistory(sandbox, 3, signal)).hasOlder).toBe(false);
});
