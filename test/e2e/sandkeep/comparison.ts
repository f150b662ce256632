/** The part of the story of api.test.ts in which snapshots are compared. */

import { expect } from "vitest";
import type { DocumentClient, Received, Sent } from "./document.ts";

/** `call` asks about the story's sandbox */
export async function compareSnapshots(
  api: DocumentClient,
  call: (id: string, sent?: Sent) => Promise<Received>,
): Promise<void> {
  const script =
    "rm /tmp/kept-not; echo more >> /tmp/grown; chmod 600 /tmp/closed; ln -s to /tmp/link; rm /usr/bin/yes";
  for (const name of ["kept-not", "grown", "closed"])
    await call("writeFile", { query: { path: `/tmp/${name}` }, bytes: Buffer.from("text") });
  const params = { snapshot: (await call("createSnapshot", { body: {} })).json.id };
  expect((await call("compareSnapshot", { params })).json).toEqual({ changes: [], next: null, truncated: false });
  await call("startCommand", { body: { command: "sh", args: ["-c", script], user: "root" } });
  const changes = [
    { path: "/tmp/closed", change: "changed", before: { mode: 0o644, size: 4 }, after: { mode: 0o600, size: 4 } },
    { path: "/tmp/grown", change: "changed", before: { type: "file", size: 4 }, after: { type: "file", size: 9 } },
    { path: "/tmp/kept-not", change: "removed", before: { size: 4 }, after: null },
    { path: "/tmp/link", change: "added", before: null, after: { type: "symlink", target: "to" } },
    { path: "/usr/bin/yes", change: "removed", before: null, after: null },
  ];
  await expect.poll(async () => (await call("compareSnapshot", { params })).json).toMatchObject({ changes });
  const to = (await call("createSnapshot", { body: {} })).json.id;
  const whole = (await call("compareSnapshot", { params, query: { to } })).json;
  expect(whole).toMatchObject({ changes, next: null });
  const back = (await call("compareSnapshot", { params: { snapshot: to }, query: { to: params.snapshot, limit: 1 } }))
    .json;
  expect(back).toMatchObject({
    changes: [{ path: "/tmp/closed", after: { mode: 0o644 } }],
    next: expect.any(String),
  });
  const pages = [];
  for (let cursor: string | undefined; ; ) {
    const page = (await call("compareSnapshot", { params, query: { to, limit: 2, ...(cursor && { cursor }) } })).json;
    pages.push(...page.changes);
    if (page.next === null) break;
    cursor = page.next;
  }
  expect(pages).toEqual(whole.changes);
  const both = await api.send("compareSnapshot", { params, query: { to, sandbox: "story" } });
  expect([both.status, both.json.error.code]).toEqual([400, "invalid"]);
  for (const snapshot of [params.snapshot, to]) await call("deleteSnapshot", { params: { snapshot } });
  expect((await api.send("compareSnapshot", { params })).status).toBe(410);
}
