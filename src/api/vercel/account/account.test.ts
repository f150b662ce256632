/** The account and login routes that Vercel's command line uses. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import { failing, key } from "../../../../test/harness/fake-core.ts";
import { SandkeepError } from "../../../core/model/errors.ts";

const anybody = { token: null };
const formHeaders = { "content-type": "application/x-www-form-urlencoded" };
const token = "/api/login/oauth/token";

describe("scope", () => {
  test("user, teams, team", async () => {
    const { ask } = apiClient();
    expect((await ask("GET", "/api/v2/user")).json.user).toMatchObject({
      defaultTeamId: "team_default",
      username: "default",
    });
    const { json } = await ask("GET", "/api/v2/teams?limit=20");
    expect(json.teams[0]).toMatchObject({
      id: "team_default",
      membership: { role: "OWNER" },
      billing: { plan: "hobby" },
    });
    expect(json.pagination).toMatchObject({ count: 1, next: null });
    expect((await ask("GET", "/api/v2/teams/team_default")).json.slug).toBe("default");
    expect((await ask("GET", "/api/v2/teams/team_other")).status).toBe(403);
  });

  test("projects are found by id or name, and created", async () => {
    const { ask, asked } = apiClient();
    expect((await ask("GET", "/api/v2/projects/default?teamId=team_default")).json).toMatchObject({
      id: "prj_default",
    });
    const missing = await ask("GET", "/api/v2/projects/vercel-sandbox-default-project?slug=default");
    expect([missing.status, missing.json.error.code]).toEqual([404, "not_found"]);
    const { status, json } = await ask("POST", "/api/v11/projects?teamId=team_default", { name: "new-one" });
    expect([status, json.name]).toEqual([200, "new-one"]);
    for (const name of ["", "A B", "../x", 1])
      expect((await ask("POST", "/api/v11/projects", { name })).status).toBe(400);
    expect(asked("access.createProject")).toHaveLength(1);
  });

  test("an existing project is a conflict", async () => {
    const { ask } = apiClient({ "access.createProject": failing("exists") });
    expect((await ask("POST", "/api/v11/projects", { name: "there" })).status).toBe(409);
  });

  test("every route is refused without a key", async () => {
    const { ask } = apiClient();
    for (const path of ["user", "teams", "teams/team_default", "projects/default"]) {
      expect((await ask("GET", `/api/v2/${path}`, undefined, anybody)).status).toBe(401);
    }
  });
});

describe("login", () => {
  test("begins with a code and a page of this daemon", async () => {
    const { ask } = apiClient();
    const body = "client_id=x&scope=openid+offline_access";
    const { json } = await ask("POST", "/api/login/oauth/device-authorization", body, {
      ...anybody,
      headers: formHeaders,
    });
    expect(json).toEqual({
      device_code: "dc_1",
      user_code: "ABCD-EFGH",
      verification_uri: "http://127.0.0.1:7700/login/device",
      verification_uri_complete: "http://127.0.0.1:7700/login/device?user_code=ABCD-EFGH",
      expires_in: 600,
      interval: 1,
    });
  });

  test.each([
    ["pending", "authorization_pending"],
    ["slow-down", "slow_down"],
    ["denied", "access_denied"],
    ["expired", "expired_token"],
  ])("is %s: %s", async (answer, error) => {
    const { ask } = apiClient({ "logins.poll": () => answer });
    const body = "grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code=dc_1";
    const { status, json } = await ask("POST", token, body, { ...anybody, headers: formHeaders });
    expect([status, json]).toEqual([400, { error }]);
  });

  test("gives the key once it is approved, and the same key for a refresh", async () => {
    const { ask, asked } = apiClient({ "logins.poll": () => ({ key }) });
    const options = { ...anybody, headers: formHeaders };
    const device = "grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code=dc_1";
    expect((await ask("POST", token, device, options)).json).toMatchObject({ access_token: key, token_type: "Bearer" });
    expect(asked("logins.poll")).toEqual([["dc_1"]]);
    const refresh = await ask("POST", token, `grant_type=refresh_token&refresh_token=${key}`, options);
    expect(refresh.json.access_token).toBe(key);
    const wrong = await ask("POST", token, "grant_type=refresh_token&refresh_token=x", options);
    expect([wrong.status, wrong.json]).toEqual([400, { error: "invalid_grant" }]);
    expect((await ask("POST", token, "grant_type=password", options)).json).toEqual({
      error: "unsupported_grant_type",
    });
  });

  test("a logout is accepted, and a key can be introspected", async () => {
    const { ask } = apiClient();
    const options = { ...anybody, headers: formHeaders };
    expect((await ask("POST", `${token}/revoke`, `token=${key}`, options)).status).toBe(200);
    expect((await ask("POST", `${token}/introspect`, `token=${key}`, options)).json).toEqual({ active: true });
    expect((await ask("POST", `${token}/introspect`, "token=x", options)).json).toEqual({ active: false });
  });
});

describe("the approval page", () => {
  const options = { ...anybody, headers: { ...formHeaders, host: "127.0.0.1:7700" } };

  test("shows the code and nothing else from the query", async () => {
    const { ask } = apiClient();
    const { text, headers } = await ask("GET", "/login/device?user_code=%22%3E%3Cscript%3E", undefined, anybody);
    expect(text).toContain("&quot;&gt;&lt;script&gt;");
    expect(text).not.toContain("<script>");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
  });

  test("approves and denies with a key", async () => {
    const { ask, asked } = apiClient();
    await ask("POST", "/login/device", `user_code=ABCD-EFGH&key=${key}&answer=approve`, options);
    await ask("POST", "/login/device", `user_code=ABCD-EFGH&key=${key}&answer=deny`, options);
    expect(asked("logins.approve")).toEqual([["ABCD-EFGH", key]]);
    expect(asked("logins.deny")).toEqual([["ABCD-EFGH"]]);
  });

  test("does nothing without a key, or for a form from another origin", async () => {
    const { ask, asked } = apiClient();
    const wrong = await ask("POST", "/login/device", "user_code=ABCD-EFGH&key=x&answer=approve", options);
    expect(wrong.status).toBe(400);
    const headers = { ...options.headers, origin: "https://evil.example" };
    const foreign = await ask("POST", "/login/device", `user_code=ABCD-EFGH&key=${key}`, { ...anybody, headers });
    expect(foreign.status).toBe(403);
    expect([...asked("logins.approve"), ...asked("logins.deny")]).toEqual([]);
  });

  test("says so when the code has expired", async () => {
    const { ask } = apiClient({
      "logins.approve": () => {
        throw new SandkeepError("not-found", 'There is no login with the code "A", or it has expired');
      },
    });
    const { status, text } = await ask("POST", "/login/device", `user_code=A&key=${key}`, options);
    expect(status).toBe(400);
    expect(text).toContain("it has expired");
  });
});
