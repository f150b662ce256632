/** Tests of the step that makes times readable. */

import { join } from "node:path";
import { sql } from "kysely";
import { expect, onTestFinished, test } from "vitest";
import { newSandbox, snapshotOf } from "../../../test/conformance/store/host.ts";
import { tempDir } from "../../../test/harness/harness.ts";
import { openEngine } from "../engines/engines.ts";
import { openStore } from "../sql-store.ts";
import { up } from "./0022-readable-times.ts";

test("a snapshot that ends after the last number that can be read is read again", async () => {
  const path = join(await tempDir(), "store.db");
  const store = await openStore({ path });
  onTestFinished(() => store.close());
  const pair = await newSandbox(store);
  const [late, other] = [snapshotOf(pair, { expiresAt: 1 }), snapshotOf(pair, { expiresAt: 5 })];
  for (const snapshot of [late, other]) await store.insertSnapshot(snapshot);
  const { db, close } = openEngine({ path });
  onTestFinished(close);
  await sql`UPDATE snapshots SET expires_at = 9008994384243000 WHERE id = ${late.id}`.execute(db);
  await expect(store.getSnapshot(late.id)).rejects.toThrow("too large");

  await up(db as never, { text: "text", allKey: "" });
  expect((await store.getSnapshot(late.id))?.expiresAt).toBe(8_640_000_000_000_000);
  expect(await store.getSnapshot(other.id)).toStrictEqual(other);
});
