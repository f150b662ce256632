/** Tests of the preload in a separate Node, between a program that calls Vercel and a fake daemon. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { root } from "../../test/harness/harness.ts";

const preload = pathToFileURL(join(root, "src/redirect/preload.mjs")).href;

test.each([
  ["https://vercel.com/api/v2/sandboxes?teamId=t", "GET /api/v2/sandboxes?teamId=t", "daemon"],
  ["https://vercel.com/.well-known/openid-configuration", "GET /.well-known/openid-configuration", "daemon"],
  ["https://api.vercel.com/v2/user", "GET /api/v2/user", "daemon"],
  ["https://127.0.0.1/health", "GET /health", "daemon"],
  ["https://localhost/health", "GET /health", "daemon"],
  ["https://sb-abc.vercel.run/a?b", "GET /a?b", "sb-abc.localhost"],
  ["https://sb-abc.vercel.run//example.com/a", "GET //example.com/a", "sb-abc.localhost"],
  ["https://api.vercel.com//example.com", "GET /api//example.com", "daemon"],
  ["https://api.e2b.app/sandboxes?a=b", "GET /sandboxes?a=b", "daemon"],
  ["https://49983-i1abc.e2b.app/health", "GET /health", "49983-i1abc.localhost"],
  ["https://49983-i1abc.localhost:PORT/files?path=a", "GET /files?path=a", "49983-i1abc.localhost"],
])("a call to %s arrives at the daemon as %s of %s", async (url, seen, host) => {
  const daemon = await listening();
  const asked = JSON.stringify(url.replace("PORT", String(daemon.port)));
  expect(await run(daemon.url, `say(await ask(${asked}))`)).toEqual([
    `${seen} ${host === "daemon" ? daemon.host : `${host}:${daemon.port}`}`,
  ]);
});

test("method, headers and body are kept, however fetch is called", async () => {
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

test("whatever the path is, a call goes to the daemon or to its original address, and nowhere else", async () => {
  const seed = 20260503;
  const code = `
    const sent = [];
    globalThis.fetch = async (input) => void sent.push(input.url ?? String(input));
    await import(${JSON.stringify(preload)});
    let state = ${seed};
    const pick = (from) => from[((state = (state * 1103515245 + 12345) % 2147483648) >> 12) % from.length];
    const hosts = ["vercel.com", "api.vercel.com", "sb-1.vercel.run", "SB-2.VERCEL.RUN", "a.b.vercel.run", "vercel.run",
      "vercel.com.example", "127.0.0.1", "localhost", "example.com", "vercel.com:8443", "user:pw@sb-1.vercel.run",
      "api.e2b.app", "1-i1.e2b.app", "a.e2b.app", "1-i1.localhost:7700", "1-i1.localhost", "1-i1.localhost:7701"];
    const pieces = ["/", "//", "\\\\", "api", ".well-known", "health", "..", ".", "%2e%2e", "%2f", "@", ":", "?", "#", ";", "example.com",
      "user@example.com", ":80", "[::1]", " ", "\\t", "\u00e4", "%00"];
    for (let i = 0; i < 20_000; i++) {
      const path = "/" + Array.from({ length: Number(pick("012345")) }, () => pick(pieces)).join("");
      const asked = pick(["https://", "http://"]) + pick(hosts) + path;
      if (!URL.canParse(asked)) continue;
      const { protocol, host, hostname, pathname, search } = new URL(asked);
      await fetch(pick([asked, new URL(asked)]));
      const went = new URL(sent.pop());
      if (went.href === new URL(asked).href) continue;
      const label = /^([^.]+)\\.(?:vercel\\.run|e2b\\.app|localhost)$/.exec(hostname.replace(/^api\\.e2b/, "api-e2b"))?.[1];
      const where = label ? label + ".localhost:7700" : "127.0.0.1:7700";
      const prefix = hostname === "api.vercel.com" ? "/api" : "";
      const isRight = protocol === "https:" && (!host.includes(":") || host === "1-i1.localhost:7700") && went.protocol === "http:" && went.host === where &&
        went.pathname === prefix + pathname && went.search === search && went.username === "";
      if (!isRight) { say(asked, "->", went.href); process.exit(0); }
    }
    say("none astray");`;
  expect(await run("http://127.0.0.1:7700", code, { NODE_OPTIONS: "" })).toEqual(["none astray"]);
});

test("names below .localhost resolve to the loopback address, for fetch and for sockets", async () => {
  const daemon = await listening();
  const code = `say(await ask("http://sb-1.localhost:${daemon.port}/x"));
    const { request } = await import("node:http");
    const { promisify } = await import("node:util");
    const { lookup } = await import("node:dns");
    say((await promisify(lookup)("127.0.0.9")).address);
    request("http://sb-2.localhost:${daemon.port}/y", async (answer) => { for await (const text of answer) say(String(text)); }).end();`;
  expect(await run(daemon.url, code)).toEqual([
    `GET /x sb-1.localhost:${daemon.port}`,
    "127.0.0.9",
    `GET /y sb-2.localhost:${daemon.port}`,
  ]);
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

test("the daemon receives another domain than localhost", async () => {
  const daemon = await listening();
  const lines = await run(daemon.url, `say(await ask("https://sb-1.vercel.run/"))`, {
    SANDKEEP_DOMAIN: "boxes.example",
  });
  expect(lines).toEqual([`GET / sb-1.boxes.example:${daemon.port}`]);
});

test("the CLI's telemetry and update check are off unless set otherwise", async () => {
  const code = "say(process.env.VERCEL_TELEMETRY_DISABLED, process.env.SANDBOX_SKIP_VERSION_CHECK)";
  expect(await run("http://127.0.0.1:1", code)).toEqual(["1 1"]);
});

test("without a valid SANDKEEP_URL, nothing is changed and one line says so", async () => {
  const code = "say(String(fetch).includes('native') || fetch.name === 'fetch', process.env.VERCEL_TELEMETRY_DISABLED)";
  for (const url of ["", "127.0.0.1:7700"]) {
    const { stdout, stderr } = await node(url, code);
    expect(stdout).toBe("true undefined\n");
    expect(stderr).toMatch(/^sandkeep\/redirect: .*SANDKEEP_URL.*\n$/);
  }
});

test("an unreachable daemon is reported once, and the program gets the original error", async () => {
  const failing = `await ask("https://vercel.com/api/v2/sandboxes").catch((error) => say(error.message));`;
  // the port of a connection's client end is taken, and nothing listens on it
  const taken = connect((await listening()).port, "127.0.0.1");
  await once(taken, "connect");
  onTestFinished(() => void taken.destroy());
  const nobody = `127.0.0.1:${taken.localPort}`;
  const { stdout, stderr } = await node(`http://${nobody}`, failing + failing);
  expect(stdout).toBe("fetch failed\nfetch failed\n");
  const why = `connect ECONNREFUSED ${nobody}`;
  expect(stderr).toBe(
    `sandkeep/redirect: Cannot reach Sandkeep at http://${nobody} (${why}): does "sandkeep serve" run there?\n`,
  );
});

/** the output lines of a program whose Node loads the preload */
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
