/** Secrets over a real store: sealed where they are stored, and in the clear only where a text is filled in. */

import { expect, onTestFinished, test } from "vitest";
import { newOwner } from "../../../test/conformance/store/host.ts";
import { openStore } from "../../store/sql-store.ts";
import type { Context } from "../context.ts";
import { idsFrom } from "../model/ids.ts";
import { Secrets } from "./secrets.ts";

test("a value is sealed in the store, in no answer, and filled in for its own team only", async () => {
  const store = await openStore({ path: ":memory:" });
  onTestFinished(() => store.close());
  const seal = { seal: (text: string) => `sealed:${btoa(text)}`, open: (text: string) => atob(text.slice(7)) };
  const hidden: string[] = [];
  const ids = idsFrom((count) => crypto.getRandomValues(new Uint8Array(count)));
  const context = { store, ids, seal, now: Date.now, redact: (text: string) => void hidden.push(text) };
  // Secrets use only these parts.
  const secrets = new Secrets(context as unknown as Context);
  const [owner, other] = [await newOwner(store), await newOwner(store)];
  const made = await secrets.create(owner, "a", { value: "first" });
  const changed = await secrets.update(owner, made.id, { value: "second", metadata: { b: "c" } });
  expect(changed).toMatchObject({ version: 2, metadata: { b: "c" } });
  expect((await store.findSecret(owner.teamId, "a"))?.value).toBe(`sealed:${btoa("second")}`);
  const page = { limit: 10, order: "asc" } as const;
  for (const answer of [made, changed, await secrets.get(owner, "a"), (await secrets.list(owner, page)).items]) {
    expect(JSON.stringify(answer)).not.toMatch(/value|first|second|sealed/);
  }
  const place = /<([^<>]+)>/g;
  expect(await secrets.filled(owner, "x <a> <a> $1", place)).toBe("x second second $1");
  expect(hidden).toContain("second");
  await expect(secrets.filled(other, "<a>", place)).rejects.toMatchObject({ code: "not-found" });
  await expect(secrets.delete(other, made.id)).rejects.toMatchObject({ code: "not-found" });
  await secrets.delete(owner, "a");
  await expect(secrets.get(owner, made.id)).rejects.toMatchObject({ code: "not-found" });
});
