/**
 * A daemon with its own certificate: E2B's unmodified SDKs in both ways of addressing, HTTP/2, ports of sandboxes and
 * other protocols over TLS, and a renewal without a restart. The names below .localhost resolve by the redirects.
 */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { copyFile, readFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect } from "node:tls";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { type CertificateFiles, certificateFor } from "../../harness/network/certificate.ts";
import { loopbackNames } from "../../harness/network/loopback-names.ts";
import { packagesOfFile } from "../../harness/pypi.ts";
import { preload } from "../clients.ts";

const run = promisify(execFile);
const undo = new AsyncDisposableStack();
const names = ["IP:127.0.0.1", "DNS:*.boxes.localhost"];
const domain = "boxes.localhost";
const packages = packagesOfFile("e2b==2.63.0");
let files: CertificateFiles;
let daemon: TestDaemon;
/** of a sandbox with a server on its port 8000 */
let host = "";

beforeAll(async () => {
  files = await certificateFor(names, undo);
  const settings = { SANDKEEP_TLS_CERT: files.cert, SANDKEEP_TLS_KEY: files.key } as const;
  daemon = await startDaemon(undo, { ...settings, SANDKEEP_DOMAIN: domain });
});
afterAll(() => undo.disposeAsync());

const oneUrl = () => ({ E2B_SANDBOX_URL: daemon.url });
/** the SDK then uses the domain that a create answers with */
const byDomain = () => ({});

test.for([
  ["one URL with headers", oneUrl],
  ["a host name for each port", byDomain],
] as const)("the JavaScript SDK works over HTTPS with %s, and speaks HTTP/2", async ([, addressing]) => {
  const env = { ...variables(), ...addressing(), NODE_OPTIONS: `--import=${preload}`, NODE_EXTRA_CA_CERTS: files.ca };
  const keep = addressing === byDomain ? { KEEP: "1" } : {};
  const program = join(import.meta.dirname, "over-tls.ts");
  const { stdout } = await run(process.execPath, [program], { env: { ...env, ...keep } });
  const { port } = new URL(daemon.url);
  const seen = JSON.parse(stdout);
  expect(seen).toMatchObject({
    ...{ run: [0, "hello\n"], failed: 3, same: true, streamed: 8 << 20, lines: "1 2 3", missing: false },
    ...{ refused: "AuthenticationError", many: true, killed: [true, true, true], signed: "new", otherWire: 200 },
    host: expect.stringMatching(`^8000-[a-z0-9]+\\.${domain.replace(".", "\\.")}:${port}$`),
    port: [200, "to the port", `${seen.host} https 1.1`],
  });
  expect(seen.protocols).toContain("h2");
  host = seen.host;
});

test.for([
  ["sync_sdk.py", "one URL with headers", oneUrl],
  ["async_sdk.py", "a host name for each port", byDomain],
] as const)("%s of the Python SDK works over HTTPS with %s", async ([program, , addressing], context) => {
  await using names = new AsyncDisposableStack();
  const path = join(import.meta.dirname, "python", program);
  // The SDK resolves names with the C library, which no redirect reaches.
  const [file, ...args] = (await loopbackNames(names)).command(packages.python(context), path);
  const env = { ...variables(), ...addressing(), SSL_CERT_FILE: files.ca };
  const { stdout } = await run(file, args, { env, cwd: await tempDir() });
  expect(JSON.parse(stdout)).toMatchObject({ run: [0, "hello\nuser\n/home/user\n", "wrong\n"], failed: 3, pty: true });
});

test("a port of a sandbox is reached over HTTP/2, and an answer that breaks off is an error", async () => {
  const session = connectHttp2(daemon.url, { ca: await readFile(files.ca) });
  const ask = (path: string) => session.request({ ":path": path, ":method": "POST", ":authority": host }).end("hello");
  const stream = ask("/echo");
  const [headers] = await once(stream, "response");
  expect([headers[":status"], headers["x-seen"], await text(stream)]).toEqual([200, `${host} https 1.1`, "hello"]);
  await expect(text(ask("/cut"))).rejects.toThrow("NGHTTP2_INTERNAL_ERROR");
  const two = session.request({ ":path": "/", ":authority": host, host: "127.0.0.1" });
  expect((await once(two, "response"))[0][":status"]).toBe(400);
  session.close();
});

test("another protocol begins over TLS at a port, and bytes pass both ways", async () => {
  const socket = await tlsTo(daemon, ["http/1.1"]);
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n`);
  expect(String((await once(socket, "data"))[0])).toMatch(/^HTTP\/1.1 101 /);
  socket.write("ping");
  expect(String((await once(socket, "data"))[0])).toBe("ping");
  socket.destroy();
});

test("`sandkeep env` accepts the daemon's HTTPS address, and names it when asked without TLS", async () => {
  const env = (url: string) =>
    run(join(root, "bin/sandkeep"), ["env", "e2b", "--url", url], {
      env: { PATH: process.env.PATH, SANDKEEP_API_KEY: daemon.key, NODE_EXTRA_CA_CERTS: files.ca },
    });
  expect((await env(daemon.url)).stdout).toContain(`export E2B_SANDBOX_URL=${daemon.url}\n`);
  const plain = daemon.url.replace("https:", "http:");
  await expect(env(plain)).rejects.toThrow(`Cannot use "${plain}": the daemon there serves HTTPS`);
  const { status, headers } = await fetch(plain, { headers: { accept: "text/html" }, redirect: "manual" });
  expect([status, headers.get("location")]).toEqual([308, `${daemon.url}/`]);
});

test("SIGHUP serves a renewed certificate at once, and no log line has the key", async () => {
  const renewed = await certificateFor(names);
  const before = await serial();
  for (const kind of ["cert", "key"] as const) await copyFile(renewed[kind], files[kind]);
  process.kill(daemon.pid, "SIGHUP");
  await eventually("the new one is served", async () => (await serial(renewed.ca)) !== before);
  expect(daemon.complaints()).toBe("");
  const key = (await readFile(files.key, "utf8")).split("\n")[1] ?? "";
  expect(daemon.said()).not.toContain(key);
});

test("a certificate that cannot be used stops the start with a sentence", async () => {
  await using own = new AsyncDisposableStack();
  await expect(startDaemon(own, { SANDKEEP_TLS_CERT: files.cert }, { fromNothing: true })).rejects.toThrow(
    `Cannot use SANDKEEP_TLS_CERT "${files.cert}": SANDKEEP_TLS_KEY should name its private key`,
  );
});

function variables(): NodeJS.ProcessEnv {
  const { url, key } = daemon;
  return { PATH: process.env.PATH, E2B_API_URL: url, E2B_API_KEY: key, SANDKEEP_URL: url, SANDKEEP_DOMAIN: domain };
}

async function tlsTo({ url }: TestDaemon, protocols: string[], authority = files.ca) {
  const { hostname, port } = new URL(url);
  const ca = await readFile(authority);
  const socket = connect({ host: hostname, port: Number(port), ca, ALPNProtocols: protocols });
  await once(socket, "secureConnect");
  return socket;
}

async function serial(authority = files.ca): Promise<string> {
  const socket = await tlsTo(daemon, [], authority);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}
