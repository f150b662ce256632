/** The log of a real daemon, for programs: JSON line by line, each request with its id, and none of the secrets. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { raw } from "../clients.ts";

const daemon = daemonOfFile({ SANDKEEP_LOG_FORMAT: "json", SANDKEEP_LOG_LEVEL: "debug" });

interface Line {
  level: string;
  time: string;
  msg: string;
  request?: string;
  method?: string;
  path?: string;
  status?: number;
  team?: string;
  session?: string;
  sandbox?: string;
}

/** the lines so far; throws if a line is not JSON */
function lines(): Line[] {
  const text = daemon().complaints();
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

test("each request has a line with its id, which its caller gets, and with its subject", async () => {
  const created = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "logged" } });
  const { id: session } = created.json.session;
  const stopped = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/stop`);
  const request = stopped.headers.get("x-request-id");
  await eventually("its line is there", () => lines().some((line) => line.request === request));
  expect(lines().filter((line) => line.request === request)).toEqual([
    expect.objectContaining({
      level: "debug",
      time: expect.stringMatching(/Z$/),
      method: "POST",
      path: `/v2/sandboxes/sessions/${session}/stop`,
      status: 200,
      team: "team_default",
      session,
    }),
  ]);
});

test("what programs are told about their sandbox is no secret: lines still name the sandbox and the team", async () => {
  const sandbox = await Sandbox.create({ apiKey: daemon().key, apiUrl: daemon().url, sandboxUrl: daemon().url });
  const { stdout } = await sandbox.commands.run("echo $E2B_SANDBOX_ID $E2B_TEAM_ID");
  expect(stdout).toBe(`${sandbox.sandboxId} team_default\n`);
  await sandbox.kill();
  const last = () => lines().find(({ method, path }) => method === "DELETE" && path?.startsWith("/sandboxes/"));
  await eventually("the line of the kill is there", () => last() !== undefined);
  expect(last()).toMatchObject({ path: `/sandboxes/${sandbox.sandboxId}`, team: "team_default" });
});

test("no secret of a request is in a line, whether the request succeeds or fails", async () => {
  const secrets = {
    env: "env-value-0123456789",
    header: "header-value-0123456789",
    git: "git-password-0123456789",
    url: "url-password-0123456789",
    key: "wrong-key-0123456789",
    command: "command-value-0123456789",
  };
  const injectionRules = [{ domain: "api.test", headers: { authorization: `Bearer ${secrets.header}` } }];
  const networkPolicy = { mode: "custom", allowedDomains: ["api.test"], injectionRules };
  const body = { name: "secret", env: { TOKEN: secrets.env }, networkPolicy };
  const created = await raw(daemon(), "POST", "/v3/sandboxes", { body });
  expect(created.status, created.text).toBe(200);
  const { id: session } = created.json.session;
  const run = { command: "no-such-program", env: { TOKEN: secrets.command } };
  await raw(daemon(), "POST", `/v2/sandboxes/sessions/${session}/cmd`, { body: run });
  const source = { type: "git", url: `https://ada:${secrets.url}@127.0.0.1:9/x.git`, password: secrets.git };
  await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "cloned", source } });
  const headers = { authorization: `Bearer ${secrets.key}` };
  const refused = await fetch(`${daemon().url}/v2/sandboxes?token=${secrets.key}`, { headers });
  const request = refused.headers.get("x-request-id");
  await eventually("the last line is there", () => lines().some((line) => line.request === request));
  for (const secret of [...Object.values(secrets), daemon().key]) expect(daemon().complaints()).not.toContain(secret);
});

test("a start that fails is a line of the log, too", async () => {
  const { dataDir, runDir, pid } = daemon();
  const args = ["serve", "--log-format", "json", "--port", "0", "--data-dir", dataDir, "--run-dir", runDir];
  const failed = await promisify(execFile)(sandkeepCommand(), args).catch((error) => error);
  expect(failed.code).toBe(1);
  expect(JSON.parse(failed.stderr)).toMatchObject({
    level: "error",
    msg: `Cannot serve "${dataDir}": another daemon uses it (process ${pid})`,
    err: { type: "SandkeepError", code: "conflict" },
  });
});
