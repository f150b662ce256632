/** The filter of the list of sandboxes. */

import { expect, test } from "vitest";
import { filterOf } from "./query.ts";

const hour = 3_600_000;
const now = 100 * hour;
const crawler = {
  name: "crawler",
  state: "running" as const,
  image: "Node:24",
  tags: { suite: "api", n: 1 },
  createdAt: now - 2 * hour,
  session: { expiresAt: now + hour },
  madeBy: { keyId: "key_1", wire: "mcp" },
};

test.each([
  ["", true],
  ["CRAWL", true],
  ["crawl api", true],
  ["nothing", false],
  ["-crawl", false],
  ["-nothing", true],
  ["state:running,paused", true],
  ["state:stopped", false],
  ["image:node", true],
  ["-image:node", false],
  ["tag:suite", true],
  ["tag:suite=api", true],
  ["tag:suite=ap", false],
  ["tag:n=1", true],
  ["created:<6h", true],
  ["created:<1h", false],
  ["created:>1h", true],
  ["created:soon", false],
  ["via:mcp,sandkeep", true],
  ["-via:mcp", false],
  ["key:key_1", true],
  ["key:key_2", false],
  ["ends:<2h", true],
  ["ends:<15m", false],
  ["ends:>15m", true],
  ["is:refused", true],
  ["-is:refused", false],
])("the filter %j", (query, isFound) => {
  expect(filterOf(query, now, new Set(["crawler"]))(crawler)).toBe(isFound);
});

test("a sandbox that was not refused anything is not among the refused ones", () => {
  expect(filterOf("is:refused", now, new Set(["other"]))(crawler)).toBe(false);
});
