/** Tests that each sandbox id has one label, which converts back to the id. */

import { expect, test } from "vitest";
import { idsFrom } from "./ids.ts";
import { idOfLabel, labelOf } from "./sandbox-label.ts";

test.each([
  idsFrom((bytes) => crypto.getRandomValues(new Uint8Array(bytes))).sandbox(),
  "sandbox_0000000000000000000000000000",
  "sandbox_zzzzzzzzzzzzzzzzzzzzzzzzzzzz",
  "sandbox_1",
  "sandbox_01",
])("the label of %s converts back to it, and fits into a host name after a port", (id) => {
  const label = labelOf(id);
  expect(label).toMatch(/^i[a-z0-9]+$/);
  expect(`65535-${label}`.length).toBeLessThanOrEqual(63);
  expect(idOfLabel(label)).toBe(id);
});

test.each(["", "i", "i0", "i1", "x1", "iA", "i-1", `i${"1".repeat(57)}`, "i1z-1", "i01q"])("%j is no label", (text) => {
  expect(idOfLabel(text)).toBeUndefined();
});
