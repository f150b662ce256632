/** Which hosts a daemon answers to. */

import { expect, test } from "vitest";
import { isOwnHost } from "./hosts.ts";

const own = ["sandboxes.example.com", "box.internal"];

test.each([
  ["127.0.0.1:7700", true],
  ["[::1]:7700", true],
  ["192.0.2.7", true],
  ["localhost:7700", true],
  ["LOCALHOST.", true],
  ["sb-abc.localhost:7700", true],
  ["sandkeep:7700", true],
  ["sandboxes.example.com", true],
  ["Sandboxes.Example.com.:443", true],
  ["box.internal:7700", true],
  ["", true],
  [null, true],
  ["evil.example", false],
  ["sandboxes.example.com.evil.example", false],
  ["localhost.evil.example:7700", false],
  ["127.0.0.1.evil.example", false],
  ["a b.example", false],
])("%j: %s", (header, expected) => {
  expect(isOwnHost(header, () => own)).toBe(expected);
});
