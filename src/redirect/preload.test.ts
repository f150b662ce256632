/** The preload in a Node of its own, between a program that calls Vercel and a stand-in for the daemon. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../../test/harness.ts";

const preload = pathToFileURL(join(root, "src/redirect/preload.mjs")).href;

test.each([
  ["https://vercel.com/api/v2/sandboxes?teamId=t", "GET /api/v2/sandboxes?teamId=t", "daemon"],
  ["https://vercel.com/.well-known/openid-configuration", "GET /.well-known/openid-configuration", "daemon"],
  ["https://api.vercel.com/v2/user", "GET /api/v2/user", "daemon"],
  ["https://127.0.0.1/health", "GET /health", "daemon"],
  ["https://localhost/health", "GET /health", "daemon"],
  ["https://sb-abc.vercel.run/a?b", "GET /a?b", "sb-abc.localhost"],
])("a call to %s arrives at the daemon as %s of %s", async (url, seen, host) => {
  const daemon = await listening();
  expect(await run(daemon.url, `say(await ask(${JSON.stringify(url)}))`)).toEqual([
    `${seen} ${host === "daemon" ? daemon.host : `${host}:${daemon.port}`}`,
  ]);
});

test("method, headers and body go along, however fetch is called", async () => {
  const daemon = await listening();
  const init = `{ method: "PUT", headers: { "x-a": "1" }, body: "hello" }`;
  const address = `"https://vercel.com/api/x"`;
  const port = `"https://sb-1.vercel.run/x"`;
  const calls = [`${address}, ${init}`, `new URL(${address}), ${init}`, `new Request(${address}, ${init})`];
  const more = [`${port}, ${init}`, `new Request(${port}, ${init})`, `new Request(${port}), ${init}`];
  const lines = await run(daemon.url, [...calls, ...more].map((call) => `say(await ask(${call}))`).join("\n"));
  expect(lines.slice(0, 3)).toEqual(Array(3).fill(`PUT /api/x ${daemon.host} 1 hello`));
  expect(lines.slice(3)).toEqual(Array(3).fill(`PUT /x sb-1.localhost:${daemon.port} 1 hello`));
});

test("a program in a sandbox may redirect to itself by path, by Vercel's name and by ours", async () => {
  const daemon = await listening();
  const targets = ["/end", "https://sb-1.vercel.run/end", `http://sb-1.localhost:${daemon.port}/end`];
  const asks = targets.map((to) => `say(await ask("https://sb-1.vercel.run/redirect?${encodeURIComponent(to)}"))`);
  expect(await run(daemon.url, asks.join("\n"))).toEqual(Array(3).fill(`GET /end sb-1.localhost:${daemon.port}`));
});

test("every other call passes untouched", async () => {
  const daemon = await listening();
  const other = await listening();
  const lines = await run(
    daemon.url,
    `say(await ask("${other.url}/api/x"));
     for (const url of ["https://vercel.com.invalid/api/x", "http://vercel.com:1/api", "https://a.b.vercel.run.invalid/", "/x", "https://"])
       say(await ask(url).catch((error) => error.name));`,
  );
  expect(lines).toEqual([`GET /api/x ${other.host}`, ...Array(5).fill("TypeError")]);
  expect(daemon.requests).toEqual([]);
});

test("another domain than localhost is said to the daemon", async () => {
  const daemon = await listening();
  const lines = await run(daemon.url, `say(await ask("https://sb-1.vercel.run/"))`, {
    SANDKEEP_DOMAIN: "boxes.example",
  });
  expect(lines).toEqual([`GET / sb-1.boxes.example:${daemon.port}`]);
});

test("the CLI's telemetry and update check are off unless somebody decided otherwise", async () => {
  const code = "say(process.env.VERCEL_TELEMETRY_DISABLED, process.env.SANDBOX_SKIP_VERSION_CHECK)";
  expect(await run("http://127.0.0.1:1", code)).toEqual(["1 1"]);
});

test("without SANDKEEP_URL, or with a bad one, nothing is touched and one line says so", async () => {
  const code = "say(String(fetch).includes('native') || fetch.name === 'fetch', process.env.VERCEL_TELEMETRY_DISABLED)";
  for (const url of ["", "127.0.0.1:7700"]) {
    const { stdout, stderr } = await node(url, code);
    expect(stdout).toBe("true undefined\n");
    expect(stderr).toMatch(/^sandkeep\/redirect: .*SANDKEEP_URL.*\n$/);
  }
});

/** the lines that a program prints in whose Node the preload is */
async function run(url: string, code: string, env: Record<string, string> = {}): Promise<string[]> {
  const { stdout } = await node(url, code, env);
  return stdout.trimEnd().split("\n");
}

async function node(url: string, code: string, env: Record<string, string> = {}) {
  const tools = `const say = (...words) => console.log(...words);
    const ask = async (...call) => (await fetch(...call)).text();`;
  const args = ["--input-type=module", "--eval", `${tools}\n${code}`];
  return await promisify(execFile)(process.execPath, args, {
    env: { PATH: process.env.PATH, NODE_OPTIONS: `--import=${preload}`, SANDKEEP_URL: url, ...env },
  });
}

async function listening() {
  const requests: string[] = [];
  const server = createServer(async (req, res) => {
    const [path, to] = (req.url ?? "").split("/redirect?");
    if (path === "" && to !== undefined) return res.writeHead(302, { location: decodeURIComponent(to) }).end();
    const words = [req.method, req.url, req.headers.host, req.headers["x-a"], await text(req)];
    const line = words.filter((word) => word).join(" ");
    requests.push(line);
    return res.end(line);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { requests, port, host: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}` };
}
