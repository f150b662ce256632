/** What `sandkeep key ls` says about a key. */

import { expect, test } from "vitest";
import { limitsOf } from "./key.ts";

test("a key that may act for every team is not taken for one of a team", () => {
  const key = { admin: false, projectId: null, readOnly: false, policyCeiling: null };
  expect(limitsOf(key)).toBe("no limits in its team");
  expect(limitsOf({ ...key, admin: true })).toBe("no limits, for every team");
  expect(limitsOf({ ...key, projectId: "prj_1", readOnly: true })).toBe("project prj_1; read-only");
});
