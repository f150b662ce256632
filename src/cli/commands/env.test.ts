/**
 * Tests of `sandkeep env`: the lines that a shell evaluates, and the errors without a key or for an unknown service.
 */

import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { recordAddress } from "../../daemon/place.ts";
import { type Authority, deriveAuthority, openAuthority } from "../../egress/intercept/authority.ts";
import { CliError } from "../errors.ts";
import { type EnvContext, envCommand } from "./env.ts";

const key = 'sk_it\'s a "key" $HOME';

test("a shell evaluates the lines for Vercel to the intended values", async () => {
  const { lines } = await run(["vercel", "--url", "http://127.0.0.1:1/"], { SANDKEEP_API_KEY: key });
  expect(evaluated(lines, { NODE_OPTIONS: "--no-warnings" })).toMatchObject({
    SANDKEEP_URL: "http://127.0.0.1:1",
    SANDKEEP_API_KEY: key,
    NODE_OPTIONS: "--no-warnings --import=file:///preload.mjs",
    VERCEL_OIDC_TOKEN: `${key} of team_default/prj_default`,
    VERCEL_AUTH_TOKEN: `${key} of team_default/prj_default`,
    VERCEL_TELEMETRY_DISABLED: "1",
    SANDBOX_SKIP_VERSION_CHECK: "1",
  });
  expect(evaluated(lines, {}).NODE_OPTIONS).toBe("--import=file:///preload.mjs");
  for (const name of ["NODE_OPTIONS", "PYTHONPATH"] as const) {
    expect(evaluated([...lines, ...lines], {})[name]).toBe(evaluated(lines, {})[name]);
  }
  expect(evaluated(lines, {}).PYTHONPATH).toBe("/our folder/python");
  expect(evaluated(lines, { PYTHONPATH: "/theirs" }).PYTHONPATH).toBe("/our folder/python:/theirs");
});

test("team and project can be chosen, and if no daemon answers, the environment's domain is used", async () => {
  const environment = { SANDKEEP_API_KEY: key, SANDKEEP_DOMAIN: "boxes.example" };
  const { lines } = await run(
    ["vercel", "--team", "team_x", "--project=prj_y", "--url=http://127.0.0.1:1"],
    environment,
  );
  expect(evaluated(lines, {})).toMatchObject({
    VERCEL_OIDC_TOKEN: `${key} of team_x/prj_y`,
    SANDKEEP_DOMAIN: "boxes.example",
    SANDKEEP_URL: "http://127.0.0.1:1",
  });
});

test("the daemon's domain wins over the environment's", async () => {
  await using server = await serving('{"status":"ok","domain":"sk.example"}');
  const environment = { SANDKEEP_API_KEY: key, SANDKEEP_DOMAIN: "boxes.example" };
  const { lines, warnings } = await run(["vercel", "--url", server.url], environment);
  expect([evaluated(lines, {}).SANDKEEP_DOMAIN, warnings]).toEqual(["sk.example", []]);
});

test("with --json each variable has the value that the lines give it", async () => {
  for (const before of [{}, { NODE_OPTIONS: "--no-warnings", PYTHONPATH: "/theirs" }]) {
    const environment = { SANDKEEP_API_KEY: key, ...before };
    for (const service of ["vercel", "e2b", "veryfront"]) {
      const { lines } = await run([service, "--url", "http://127.0.0.1:1"], environment);
      const { lines: printed } = await run([service, "--url", "http://127.0.0.1:1", "--json"], environment);
      const values = JSON.parse(printed.join("\n"));
      expect(Object.keys(values).length).toBeGreaterThan(1);
      expect(evaluated(lines, before)).toMatchObject(values);
      expect(Object.keys(values).sort()).toEqual(lines.map((line) => /export (\w+)=/.exec(line)?.[1]).sort());
    }
  }
});

test("a key or project that the daemon refuses is an error, and no settings are printed", async () => {
  await using server = await serving((path) =>
    path.startsWith("/health")
      ? [200, '{"status":"ok","domain":"localhost"}']
      : path === "/sandkeep/v1/caller?project=nope"
        ? [404, '{"error":{"message":"Project not found."}}']
        : [401, '{"error":{"message":"Not authorized"}}'],
  );
  const refused = `Cannot use the daemon at "${server.url}" with this API key`;
  expect(await failure(["vercel", "--url", server.url])).toMatch(
    `${refused}: Not authorized\nhint: the key is that of `,
  );
  expect(await failure(["vercel", "--project", "nope", "--url", server.url])).toBe(
    `${refused} in the project "nope": Project not found.`,
  );
});

test("a daemon that is too busy to answer is a warning", async () => {
  await using server = await serving((path) => (path === "/health" ? [200, '{"status":"ok"}'] : [503, "{}"]));
  const { lines, warnings } = await run(["e2b", "--url", server.url], { SANDKEEP_API_KEY: key });
  expect(warnings).toEqual([`Cannot use the daemon at "${server.url}" with this API key: the daemon says 503`]);
  expect(evaluated(lines, {}).E2B_API_URL).toBe(server.url);
});

test("a daemon that speaks HTTP instead of TLS is distinguished from no daemon", async () => {
  await using server = await serving('{"status":"ok"}');
  const url = server.url.replace("http:", "https:");
  expect(await failure(["vercel", "--url", url])).toBe(
    `Cannot reach the daemon at "${url}": something answers there, but not with TLS\nhint: if the daemon speaks HTTP there, its address is ${server.url}`,
  );
});

test("Veryfront has variables of its own", async () => {
  const environment = { SANDKEEP_API_KEY: key, SANDKEEP_URL: "http://127.0.0.1:1" };
  expect(evaluated((await run(["veryfront"], environment)).lines, {})).toMatchObject({
    VERYFRONT_API_URL: "http://127.0.0.1:1",
    VERYFRONT_API_TOKEN: key,
  });
});

test("E2B has variables of its own, the key in hexadecimal digits, and the preload for its first version", async () => {
  const environment = { SANDKEEP_API_KEY: key, SANDKEEP_URL: "http://127.0.0.1:1", SANDKEEP_DOMAIN: "box.example" };
  const url = "http://127.0.0.1:1";
  expect(evaluated((await run(["e2b"], environment)).lines, {})).toMatchObject({
    E2B_API_URL: url,
    E2B_SANDBOX_URL: url,
    E2B_VOLUME_API_URL: url,
    E2B_DOCS_BASE: `${url}/docs`,
    E2B_API_KEY: `e2b_${Buffer.from(key).toString("hex")}`,
    SANDKEEP_URL: url,
    SANDKEEP_DOMAIN: "box.example",
    NODE_OPTIONS: "--import=file:///preload.mjs",
  });
});

test("the key is read from the first data directory that has one", async () => {
  const [empty, full] = [await tempDir(), await tempDir()];
  await mkdir(join(full, "data"));
  await writeFile(join(full, "data/api-key"), "sk_from_file\n");
  const { lines } = await run(["veryfront", "--url=http://127.0.0.1:1"], {}, [empty, join(full, "data")]);
  expect(lines).toContain("export VERYFRONT_API_TOKEN=sk_from_file");
  await expect(run(["veryfront", "--data-dir", empty], {}, [join(full, "data")])).rejects.toThrow(
    /^Cannot find an API key: .*api-key"\nhint: /,
  );
});

test("the address is what the daemon of the directory with the key has recorded, unless another is named", async () => {
  const [other, dataDir] = [await tempDir(), await tempDir()];
  await writeFile(join(other, "address"), "http://127.0.0.1:3\n");
  recordAddress("http://127.0.0.1:1", { dataDir });
  await writeFile(join(dataDir, "api-key"), "sk_from_file\n");
  const address = async (args: string[], environment: NodeJS.ProcessEnv = {}) =>
    evaluated((await run(["veryfront", ...args], environment, [other, dataDir])).lines, {}).VERYFRONT_API_URL;
  expect(await address([])).toBe("http://127.0.0.1:1");
  expect(await address(["--data-dir", dataDir])).toBe("http://127.0.0.1:1");
  expect(await address(["--url", "http://127.0.0.1:2"])).toBe("http://127.0.0.1:2");
  expect(await address([], { SANDKEEP_PORT: "2" })).toBe("http://127.0.0.1:2");
  expect(await address([], { SANDKEEP_URL: "http://127.0.0.1:2" })).toBe("http://127.0.0.1:2");
});

test("a daemon that does not answer is a warning, which the shell does not evaluate", async () => {
  const { lines, warnings } = await run(["vercel", "--url=http://127.0.0.1:1"], { SANDKEEP_API_KEY: key });
  expect(warnings).toEqual([
    'Cannot reach the daemon at "http://127.0.0.1:1": nothing answers there\nhint: start it with: sandkeep serve',
  ]);
  expect(lines.every((line) => /^(export|case) /.test(line))).toBe(true);
});

test("an unknown host name, an untrusted certificate and another server are distinguished", async () => {
  // A label of 64 letters is in no domain, so no name server is asked.
  expect(await failure(["veryfront", "--url", `http://${"a".repeat(64)}.invalid`])).toMatch(
    /^Cannot reach .*: no address is known for "a{64}\.invalid" \((ENOTFOUND|EAI_AGAIN)\)$/,
  );
  await using tls = await serving('{"status":"ok"}', unknownAuthority());
  expect(await failure(["veryfront", "--url", tls.url])).toMatch(
    /: the certificate of "localhost:\d+" is not trusted \(\w+\)\nhint: NODE_EXTRA_CA_CERTS/,
  );
  await using other = await serving("<html>");
  expect(await failure(["veryfront", "--url", other.url])).toBe(
    `Cannot use "${other.url}": something answers there, but not Sandkeep (/health says 200)`,
  );
});

test("eval fails if there are no settings to evaluate", async () => {
  const lines: string[] = [];
  await expect(envCommand(["vercel"], contextOf({}, { print: (line) => void lines.push(line) }))).rejects.toThrow(
    "Cannot find an API key",
  );
  const shell = (script: string) => spawnSync("/bin/sh", ["-c", script, "sh", lines.join("\n")], { encoding: "utf8" });
  expect(shell('eval "$1" && echo works || echo fails').stdout).toBe("fails\n");
  expect(shell('set -e; eval "$1"; echo works')).toMatchObject({ status: 1, stdout: "", stderr: "" });
});

test.each([
  [[], /Cannot print settings: name one service, vercel, e2b or veryfront\n/],
  [["vercell"], /Cannot print settings for "vercell": there is no such service. Did you mean "vercel"\?\n/],
  [["aws"], /Cannot print settings for "aws": there is no such service. There are vercel, e2b and veryfront\n/],
  [["constructor"], /Cannot print settings for "constructor"/],
  [["vercel", "e2b"], /Cannot print settings: name one service/],
  [["vercel", "--what"], /Unknown option '--what'\n/],
  [["vercel", "--ulr=x"], /Unknown option '--ulr'. Did you mean "--url"\?\n/],
  [["vercel", "--url", "localhost:1"], /Cannot use "localhost:1" as the daemon's address/],
])("invalid arguments are a clear error: %j", async (args, sentence) => {
  await expect(run(args, { SANDKEEP_API_KEY: key })).rejects.toThrow(sentence);
});

async function run(args: string[], environment: NodeJS.ProcessEnv, dataDirs: string[] = []) {
  const lines: string[] = [];
  const warnings: string[] = [];
  const print = (line: string) => void lines.push(line);
  const warn = (line: string) => void warnings.push(line);
  await envCommand(args, contextOf(environment, { dataDirs, print, warn }));
  return { lines, warnings };
}

/** the error message of a command that prints no settings */
async function failure(args: string[]): Promise<string> {
  const printed: string[] = [];
  const context = contextOf({ SANDKEEP_API_KEY: key }, { print: (line) => void printed.push(line) });
  const error = await envCommand(args, context).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(printed).toEqual([expect.stringMatching(/^false #/)]);
  return error instanceof CliError ? error.message : String(error);
}

function contextOf(environment: NodeJS.ProcessEnv, others: Partial<EnvContext>): EnvContext {
  return {
    environment,
    preload: "file:///preload.mjs",
    pythonPath: "/our folder/python",
    token: (secret, { teamId, projectId }) => `${secret} of ${teamId}/${projectId}`,
    dataDirs: [],
    print: () => undefined,
    warn: () => undefined,
    ...others,
  };
}

/** a server on loopback with one answer, or one for each path; over TLS if there is an authority */
async function serving(text: string | ((path: string) => [status: number, text: string]), authority?: Authority) {
  const answer: RequestListener = (request, response) => {
    const [status, said] = typeof text === "string" ? [200, text] : text(request.url ?? "");
    response.writeHead(status).end(said);
  };
  const options: ServerOptions = { SNICallback: (name, done) => done(null, authority?.leafFor(name)) };
  const server = authority ? createTlsServer(options, answer) : createServer(answer);
  server.on("tlsClientError", () => undefined);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: authority ? `https://localhost:${port}` : `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function unknownAuthority(): Authority {
  return openAuthority(deriveAuthority(Buffer.alloc(32, "unknown"), "unknown"));
}

/** the environment after a shell has evaluated the lines */
function evaluated(lines: string[], env: Record<string, string>): Record<string, string> {
  const script = `${lines.join("\n")}\nenv -0`;
  const printed = execFileSync("/bin/sh", ["-eu", "-c", script], {
    env: { PATH: process.env.PATH, ...env },
  }).toString();
  return Object.fromEntries(printed.split("\0").map((entry) => entry.split(/=(.*)/s).slice(0, 2)));
}
