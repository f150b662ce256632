/** Tests that ids have the shapes that clients check. */

import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { idsFrom } from "./ids.ts";

const ids = idsFrom(randomBytes);

test("ids have the shapes that clients expect", () => {
  expect(ids.session().id).toMatch(/^sbx_[0-9A-Za-z]{28}$/);
  expect(ids.session().shortId).toMatch(/^[a-z0-9]{20}$/);
  expect(ids.command()).toMatch(/^cmd_[0-9a-f]{28}$/);
  expect(ids.snapshot()).toMatch(/^snap_[0-9A-Za-z]{28}$/);
  expect(ids.subdomain()).toMatch(/^sb-[a-z0-9]{12}$/);
  expect(ids.project().uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("all characters are equally likely", () => {
  const counts = new Map<string, number>();
  for (let i = 0; i < 4000; i++) {
    for (const letter of ids.session().id.slice(4)) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  }
  expect(counts.size).toBe(62);
  const expected = (4000 * 28) / 62;
  for (const count of counts.values()) expect(Math.abs(count - expected)).toBeLessThan(expected * 0.2);
});

test("ids do not repeat", () => {
  expect(new Set(Array.from({ length: 10_000 }, () => ids.command())).size).toBe(10_000);
});
