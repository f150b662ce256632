/** The page on which the login of a command line is agreed to: who gets a key, and where it goes. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import { failing, key } from "../../../../test/harness/fake-core.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { wireKeyOf } from "./keys.ts";

const page = "/docs/api/cli";
const made = { key: { id: "key_2", name: "e2b auth login" }, secret: "sk_madeforit" };
const known = { "access.createKey": async () => made };
const headers = { "content-type": "application/x-www-form-urlencoded", host: "127.0.0.1:7700" };
const form = (fields: Record<string, string>) => String(new URLSearchParams(fields));
const next = "http://localhost:4321";
const agreed = { next, key, answer: "approve" };

test("a key of its own goes to the command line that asked", async () => {
  const { ask, asked } = apiClient(known);
  const { status, headers: answer } = await ask("POST", page, form(agreed), { token: null, headers });
  expect(status).toBe(303);
  const target = new URL(answer.get("location") ?? "");
  expect(target.origin).toBe(next);
  const token = wireKeyOf(made.secret);
  expect(Object.fromEntries(target.searchParams)).toEqual({
    ...{ email: "default@localhost", accessToken: token, refreshToken: token, clientId: "e2b-cli" },
    tokenEndpoint: "http://127.0.0.1:7700/docs/api/cli/token",
    revokeEndpoint: "http://127.0.0.1:7700/docs/api/cli/revoke",
  });
  expect(asked("access.createKey")).toEqual([[{ teamId: "team_default" }, "e2b auth login"]]);
});

test("a login that is refused makes no key, and the command line learns it", async () => {
  const { ask, asked } = apiClient(known);
  const { headers: answer } = await ask("POST", page, form({ next, answer: "deny" }), { token: null, headers });
  expect(answer.get("location")).toMatch(/^http:\/\/localhost:4321\/\?error=The\+login/);
  expect(asked("access.createKey")).toEqual([]);
});

test.each([
  "",
  "https://localhost:4321",
  "http://evil.example:4321",
  "http://localhost.evil.example:4321",
  "http://localhost:4321@evil.example",
  "http://localhost:4321/path",
  "http://localhost",
  "http://localhost:99999",
  "javascript:alert(1)",
])("no key goes to %j", async (other) => {
  const { ask, asked } = apiClient(known);
  const asking = await ask("GET", `${page}?next=${encodeURIComponent(other)}`, undefined, { token: null });
  const { status, headers: answer } = await ask("POST", page, form({ ...agreed, next: other }), {
    token: null,
    headers,
  });
  expect([asking.status, status, answer.get("location"), asked("access.createKey")]).toEqual([400, 400, null, []]);
});

test("a page of another origin cannot agree, with a key or with a session", async () => {
  const { ask, asked } = apiClient(known);
  for (const given of [{}, { "x-sandkeep-session": "0".repeat(64) }]) {
    const foreign = { ...headers, ...given, origin: "https://evil.example" };
    expect((await ask("POST", page, form(agreed), { token: null, headers: foreign })).status).toBe(403);
  }
  const session = { ...headers, "x-sandkeep-session": "0".repeat(64), origin: "http://127.0.0.1:7700" };
  expect((await ask("POST", page, form({ next, answer: "approve" }), { token: null, headers: session })).status).toBe(
    401,
  );
  expect(asked("access.createKey")).toEqual([]);
});

test("a wrong key and one that may not make keys are refused on the page, which asks again", async () => {
  const wrong = await apiClient(known).ask("POST", page, form({ ...agreed, key: "x" }), { token: null, headers });
  expect([wrong.status, wrong.text]).toEqual([401, expect.stringContaining("no team has it")]);
  expect(wrong.text).toContain(`value="${next}"`);
  const limited = apiClient({ "access.createKey": failing("forbidden", "Not authorized: this key is limited") });
  const refused = await limited.ask("POST", page, form(agreed), { token: null, headers });
  expect([refused.status, refused.text]).toEqual([403, expect.stringContaining("this key is limited")]);
});

test("the pages show text of the address as text, and load nothing from elsewhere", async () => {
  const { ask } = apiClient();
  for (const query of [`next=${next}`, "state=success&email=%3Cscript%3E", "state=error&error=%22%3E%3Cscript%3E"]) {
    const { text, headers: answer } = await ask("GET", `${page}?${query}`, undefined, { token: null });
    expect(text).not.toMatch(/<script(?! src="\/docs\/api\/cli\/signed-in.js")/);
    expect(answer.get("content-security-policy")).toMatch(/^default-src 'none';.*frame-ancestors 'none'/);
  }
});

describe("the key afterwards", () => {
  const ask = (client: ReturnType<typeof apiClient>, path: string, fields: Record<string, string>) =>
    client.ask("POST", page + path, form(fields), { token: null, headers });

  test("is its own token, as long as it counts", async () => {
    const client = apiClient({
      "access.authenticate": async (given: string) => {
        if (given !== made.secret) throw new SandkeepError("unauthenticated", "No team has this key");
        return { teamId: "team_default" };
      },
    });
    const token = wireKeyOf(made.secret);
    const refresh = { grant_type: "refresh_token", refresh_token: token };
    expect((await ask(client, "/token", refresh)).json).toMatchObject({ access_token: token });
    const gone = await ask(client, "/token", { ...refresh, refresh_token: "x" });
    expect([gone.status, gone.json]).toEqual([400, { error: "invalid_grant" }]);
    expect((await ask(client, "/token", { grant_type: "password" })).status).toBe(400);
  });

  test.each([
    ["e2b auth login", 1],
    ["mine", 0],
  ])("is deleted by a logout if its name is %s", async (name, deleted) => {
    const client = apiClient({
      "access.authenticate": async () => ({ teamId: "team_default", keyId: "key_2" }),
      "access.keys": async () => [
        { id: "key_1", name: "e2b auth login" },
        { id: "key_2", name },
      ],
      "access.deleteKey": async () => undefined,
    });
    expect((await ask(client, "/revoke", { token: wireKeyOf(key) })).status).toBe(200);
    expect(client.asked("access.deleteKey").map(([, id]) => id)).toEqual(deleted ? ["key_2"] : []);
  });
});
