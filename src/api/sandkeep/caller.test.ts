/** The caller route: it refuses an unknown key, team or project. */

import { expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";

test("a key gets its team and project, and a project of another team is refused", async () => {
  const { ask } = apiClient();
  const own = await ask("GET", "/sandkeep/v1/caller?project=prj_default");
  expect([own.status, own.json]).toEqual([
    200,
    {
      ...{ teamId: "team_default", team: "default", projectId: "prj_default", project: "default" },
      ...{ key: { id: "key_1", name: "first" }, readOnly: false, admin: false },
    },
  ]);
  expect((await ask("GET", "/sandkeep/v1/caller?project=prj_foreign")).status).toBe(403);
  expect((await ask("GET", "/sandkeep/v1/caller", undefined, { token: "sk_bad" })).status).toBe(401);
});
