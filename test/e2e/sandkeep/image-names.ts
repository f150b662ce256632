/** Further names of the host's images in the story of api.test.ts, and the deletion of what no image needs. */

import { expect } from "vitest";
import type { DocumentClient, Received, Sent } from "./document.ts";

type Call = (id: string, sent?: Sent) => Promise<Received>;

export async function imageNames(api: DocumentClient, call: Call): Promise<void> {
  const alias = { pattern: "acme/*", image: "host", isSetting: false };
  const body = { pattern: alias.pattern, image: alias.image };
  expect((await call("putImageAlias", { body })).json).toEqual(alias);
  expect((await call("listImageAliases")).json.aliases).toEqual([alias]);
  const made = await call("createSandbox", { body: { name: "by-alias", image: "acme/any:1" } });
  expect(made.json.image).toBe("host");
  await call("deleteSandbox", { params: { sandbox: "by-alias" }, query: { snapshots: true } });
  const missing = await api.send("putImageAlias", { body: { ...body, image: "gone" } });
  expect([missing.status, missing.json.error.message]).toEqual([404, expect.stringContaining('no image named "gone"')]);
  // Many changes at once all count.
  const patterns = Array.from({ length: 8 }, (_, at) => `at-once-${at}`);
  await Promise.all(patterns.map((pattern) => call("putImageAlias", { body: { pattern, image: "host" } })));
  expect((await call("listImageAliases")).json.aliases).toHaveLength(9);
  for (const pattern of [...patterns, alias.pattern]) await call("deleteImageAlias", { query: { pattern } });
  expect((await call("listImageAliases")).json.aliases).toEqual([]);
  expect((await api.send("deleteImageAlias", { query: { pattern: alias.pattern } })).status).toBe(404);
  expect((await call("pruneImages")).json).toEqual({ layers: expect.any(Number) });
}
