/** Logging in from the command line: a code is approved on the daemon's own page, and the client finds the scope. */

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { type CliVersion, cliCommand, cliEnvironment, finished, raw, sdks, startCli } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";
import { Typist } from "./typist.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));
beforeEach((context) => needs(context, "the command python3"));

describe.each<CliVersion>(["4.5.0", "3.5.5", "2.5.12"])("sandbox %s", (version) => {
  test("login is approved on the local page, commands then know user and project, and logout forgets them", async () => {
    const home = await tempDir();
    const login = loginOn(version, home);
    const [, code = ""] = await login.until(/enter ([A-Z0-9]{4}-[A-Z0-9]{4})/);
    const page = await fetch(new URL(`/login/device?user_code=${code}`, daemon().url));
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    expect(await page.text()).toContain(`value="${code}"`);
    expect((await answer(code, "sk_wrong_wrong_wrong", "approve")).status).toBe(400);
    const approved = await answer(code, daemon().key, "approve");
    expect(await approved.text()).toContain("Approved");
    expect(await login.ended, login.output).toBe(0);
    await login.until(/signed in/);
    await login.until(/team: .*default/);
    await login.until(/project: .*vercel-sandbox-default-project/);
    const file = join(home, "data/com.vercel.cli/auth.json");
    expect(JSON.parse(await readFile(file, "utf8")).token).toBe(daemon().key);
    // The oldest version knows sandboxes only by their ids.
    const given = version === "2.5.12" ? [] : ["--name", `login-${version.replaceAll(".", "-")}`];
    const run = await as(version, home, ["run", ...given, "--", "echo", "in"]);
    expect(run).toMatchObject({ code: 0 });
    expect(run.stdout).toContain("in\n");
    const newest = await raw(daemon(), "GET", "/v1/sandboxes?project=vercel-sandbox-default-project&limit=1");
    const [{ id, sourceSandboxName: name }] = newest.json.sandboxes;
    expect(name).toBe(given[1] ?? id);
    // By name, because the command line knows its project by name.
    const found = await raw(daemon(), "GET", `/v2/sandboxes/${name}?projectId=vercel-sandbox-default-project`);
    expect(found.json.sandbox.name).toBe(name);
    expect((await raw(daemon(), "GET", `/v2/sandboxes/${name}?projectId=prj_default`)).status).toBe(404);
    expect((await as(version, home, ["rm", name])).code).toBe(0);
    expect((await as(version, home, ["logout"])).code).toBe(0);
    const left = existsSync(file) ? await readFile(file, "utf8") : "";
    expect(left).not.toContain(daemon().key);
  });

  test("login that is denied fails", async () => {
    const login = loginOn(version, await tempDir());
    const [, code = ""] = await login.until(/enter ([A-Z0-9]{4}-[A-Z0-9]{4})/);
    expect(await (await answer(code, daemon().key, "deny")).text()).toContain("Denied");
    expect(await login.ended, login.output).toBe(1);
  });
});

describe("the page", () => {
  test("refuses other sites, unknown codes and markup", async () => {
    const form = new URLSearchParams({ user_code: "ABCD-EFGH", key: daemon().key, answer: "approve" });
    const foreign = await fetch(new URL("/login/device", daemon().url), {
      method: "POST",
      body: form,
      headers: { origin: "https://evil.example" },
    });
    expect(foreign.status).toBe(403);
    expect((await answer("ABCD-EFGH", daemon().key, "approve")).status).toBe(400);
    const markup = await fetch(new URL("/login/device?user_code=%22%3E%3Cscript%3E", daemon().url));
    expect(await markup.text()).not.toContain("<script>");
  });

  test("the login flow refuses unknown codes, tokens and grants", async () => {
    const token = (fields: Record<string, string>) =>
      fetch(new URL("/api/login/oauth/token", daemon().url), { method: "POST", body: new URLSearchParams(fields) });
    const device = "urn:ietf:params:oauth:grant-type:device_code";
    expect(await (await token({ grant_type: device, device_code: "x" })).json()).toEqual({ error: "expired_token" });
    expect(await (await token({ grant_type: "password" })).json()).toEqual({ error: "unsupported_grant_type" });
    expect(await (await token({ grant_type: "refresh_token", refresh_token: "x" })).json()).toEqual({
      error: "invalid_grant",
    });
    const again = await token({ grant_type: "refresh_token", refresh_token: daemon().key });
    expect(await again.json()).toMatchObject({ access_token: daemon().key, token_type: "Bearer" });
  });
});

test("the lines of `sandkeep env vercel` are all that a program needs", async () => {
  const env = linesOfEnv();
  expect(env.SANDKEEP_URL).toBe(daemon().url);
  // With that token the SDK finds its team and project by itself.
  process.env.VERCEL_OIDC_TOKEN = env.VERCEL_OIDC_TOKEN;
  try {
    for (const { Sandbox } of Object.values(sdks)) {
      const sandbox = await Sandbox.create();
      expect(await (await sandbox.runCommand("echo", ["hello"])).stdout()).toBe("hello\n");
      const found = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox.name}?projectId=prj_default`);
      expect(found.status).toBe(200);
      await sandbox.delete();
    }
  } finally {
    delete process.env.VERCEL_OIDC_TOKEN;
  }
  const home = await tempDir();
  const listed = await finished(startCli("4.5.0", ["list"], { env, cwd: home }));
  expect(listed).toMatchObject({ code: 0 });
});

/** a shell's environment after `eval "$(sandkeep env vercel)"` */
function linesOfEnv(): Record<string, string> {
  const script = `eval "$(bin/sandkeep env vercel)"; exec "$0" -e 'console.log(JSON.stringify(process.env))'`;
  const env = { PATH: process.env.PATH, SANDKEEP_URL: daemon().url, SANDKEEP_API_KEY: daemon().key };
  const { stdout, stderr } = spawnSync("sh", ["-c", script, process.execPath], { env, encoding: "utf8" });
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

function loginOn(version: CliVersion, home: string): Typist {
  return new Typist(cliCommand(version, ["login"]), { env: withoutToken(home), cwd: home });
}

function as(version: CliVersion, home: string, args: string[]) {
  return finished(startCli(version, args, { env: withoutToken(home), cwd: home }));
}

function withoutToken(home: string): NodeJS.ProcessEnv {
  const { VERCEL_AUTH_TOKEN: _, CI: __, ...env } = cliEnvironment(daemon(), home);
  return env;
}

function answer(code: string, key: string, wanted: "approve" | "deny"): Promise<Response> {
  const body = new URLSearchParams({ user_code: code, key, answer: wanted });
  return fetch(new URL("/login/device", daemon().url), { method: "POST", body });
}
