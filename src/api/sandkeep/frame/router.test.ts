/** What holds for every operation: whose requests an Idempotency-Key takes for repeats. */

import { expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import { session } from "../../../../test/harness/fake-core.ts";

test("a key that is limited to another project does not get the answer to the first request", async () => {
  const { ask, asked } = apiClient({
    "access.authenticate": async (projectId: string) => ({ teamId: "team_default", scope: { projectId } }),
  });
  const create = (token: string) =>
    ask("POST", "/sandkeep/v1/sandboxes", { name: "demo" }, { token, headers: { "idempotency-key": "1" } });
  for (const token of ["prj_one", "prj_one", "prj_two"]) expect((await create(token)).status).toBe(201);
  expect(asked("sandboxes.create")).toHaveLength(2);
});

test("a new name in a path that breaks the rule for names is refused with the rule, and a search for one is not", async () => {
  const { ask } = apiClient();
  const made = await ask("PUT", "/sandkeep/v1/drives/bad%20name", {});
  expect(made.status).toBe(400);
  expect(made.json.error.message).toMatch(
    /^Invalid request: a name begins with a letter or digit, and has at most 128/,
  );
  expect((await ask("GET", `/sandkeep/v1/drives/${"a".repeat(300)}`)).status).toBe(404);
});

test.each([
  ["teams", { slug: "a b" }, "the name of a team has up to 48 lowercase letters"],
  ["projects", { name: "a b" }, "the name of a project has no blanks"],
  ["sandboxes", { name: "a b" }, "a name begins with a letter or digit"],
  ["sandboxes", { cwd: "a" }, "`cwd` should be an absolute path"],
  ["sandboxes", { mounts: { a: { drive: "d" } } }, "a drive is mounted at an absolute path"],
  ["sandboxes", { snapshotExpiration: 2 ** 53 - 1 }, "`snapshotExpiration` should be <= 3155760000000"],
  [
    "sandboxes",
    { keepLastSnapshots: { count: 1, expiration: 2 ** 53 - 1 } },
    "`keepLastSnapshots.expiration` should be <= ",
  ],
  [`sessions/${session.id}/snapshots`, { expiration: 2 ** 53 - 1 }, "`expiration` should be <= 3155760000000"],
  ["keys", { name: "a", expiresAt: 2 ** 53 - 1 }, "`expiresAt` should be <= 8640000000000000"],
  ["webhooks", { url: "https://a.test", events: ["nothing"] }, "an event is one of sandbox, session"],
])("a body of %s that breaks a rule is refused with a sentence, not with a pattern: %j", async (path, body, said) => {
  const { status, json } = await apiClient().ask("POST", `/sandkeep/v1/${path}`, body);
  expect({ status, said: json.error.message }).toEqual({ status: 400, said: expect.stringContaining(said) });
});
