/** Tests of the step that adds the tags of existing sessions to their index. */

import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { newOwner, newSandbox, sessionOf } from "../../../test/conformance/store/host.ts";
import { tempDir } from "../../../test/harness/harness.ts";
import { openEngine } from "../engines/engines.ts";
import { openStore } from "../sql-store.ts";
import { indexSessions } from "./0004-session-index.ts";

test("existing sessions are found by tags, also those of deleted sandboxes", async () => {
  const path = join(await tempDir(), "store.db");
  const store = await openStore({ path });
  onTestFinished(() => store.close());
  const owner = await newOwner(store);
  const { sandbox, session } = await newSandbox(store, { owner, tags: { a: { b: 1 } } });
  await store.insertSession(sessionOf(sandbox), session.id);
  await newSandbox(store, { owner });
  for (let i = 0; i < 1200; i++) await newSandbox(store, { owner, tags: { i } });
  await store.deleteSandbox(sandbox.id, 1);

  const { db, close } = openEngine({ path });
  onTestFinished(close);
  await db.deleteFrom("session_tags").execute();
  await indexSessions(db as never);
  const found = async (contains: { a: { b: number } } | { i: number }) =>
    (await store.listSessions({ projectId: owner.projectId, order: "asc", limit: 5, contains })).items.length;
  expect(await found({ a: { b: 1 } })).toBe(2);
  for (const i of [0, 999, 1000, 1199]) expect(await found({ i })).toBe(1);
});
