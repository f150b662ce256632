/** Who a caller is: a key, a team and a project that there are not are refused. */

import { expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";

test("a key is told whose it is, and a project that is not its own is refused", async () => {
  const { ask } = apiClient();
  const own = await ask("GET", "/sandkeep/v1/caller?project=prj_default");
  expect([own.status, own.json]).toEqual([200, { teamId: "team_default", projectId: "prj_default", readOnly: false }]);
  expect((await ask("GET", "/sandkeep/v1/caller?project=prj_foreign")).status).toBe(403);
  expect((await ask("GET", "/sandkeep/v1/caller", undefined, { token: "sk_bad" })).status).toBe(401);
});
