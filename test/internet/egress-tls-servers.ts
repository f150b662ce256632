/**
 * The servers of test/network/egress-tls.test.ts, run inside the network namespace of its internet: an echo of requests over
 * HTTP/2 and 1.1 (8443), which also takes uploads, gives downloads (/download/<MiB>) and has a repository and an npm
 * package (/tiny-package); the same with an untrusted certificate (9443); a WebSocket echo (7444); and the target of a
 * forwarding rule (8081). Prints "ready" and stays until its stdin ends.
 */

import { createHash } from "node:crypto";
import { createServer as createPlain } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createServer as createHttps } from "node:https";
import type { Server } from "node:net";
import { gzipSync } from "node:zlib";
import { WebSocketServer } from "ws";
import { type Authority, deriveAuthority, openAuthority } from "../../src/egress/intercept/authority.ts";
import { tarOf } from "../harness/images/image-archives.ts";
import { internetSpec } from "./internet-tls.ts";

const believed = openAuthority(internetSpec);
const unbelieved = openAuthority(deriveAuthority(Buffer.alloc(32, "nobody"), "nobody"));

const tiny = { name: "tiny-package", version: "1.0.0" };
const archive = gzipSync(await tarOf([{ name: "package/package.json", content: JSON.stringify(tiny) }]));
const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;

const sockets = createHttps({ SNICallback: (name, done) => done(null, believed.leafFor(name)) });
new WebSocketServer({ server: sockets }).on("connection", (socket, request) => {
  socket.send(`hello ${request.headers["x-secret"]}`);
  socket.on("message", (data) => socket.send(String(data)));
});
const forwarded = createPlain((request, response) =>
  response.end(JSON.stringify({ url: request.url, headers: request.headers })),
);

await Promise.all([
  listening(web(believed), 8443),
  listening(web(unbelieved), 9443),
  listening(sockets, 7444),
  listening(forwarded, 8081),
]);
console.log("ready");
process.stdin.on("end", () => process.exit(0)).resume();

function web(authority: Authority) {
  const options = { allowHTTP1: true, SNICallback: serve(authority) };
  return createSecureServer(options, (request, response) => void answer(request, response));
}

function serve(authority: Authority) {
  return (name: string, done: (error: Error | null, context?: ReturnType<Authority["leafFor"]>) => void) =>
    done(null, authority.leafFor(name));
}

async function answer(request: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
  const { method, url, httpVersion, headers } = request;
  if (url.startsWith("/upload")) {
    const hash = createHash("sha256");
    for await (const chunk of request) hash.update(chunk);
    response.end(hash.digest("hex"));
  } else if (url.startsWith("/download")) {
    const block = Buffer.alloc(1 << 20, "d");
    const blocks = Number(url.split("/")[2] ?? 16);
    for (let i = 0; i < blocks; i++) {
      if (!response.write(block)) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end();
  } else if (url.startsWith("/repo.git/info/refs")) {
    const line = `${"a".repeat(40)}\trefs/heads/${headers["x-secret"]}\n`;
    response.setHeader("content-type", "text/plain");
    response.end(line);
  } else if (url === "/tiny-package") {
    const tarball = `https://${headers[":authority"] ?? headers.host}/archives/tiny-package.tgz`;
    const versions = { [tiny.version]: { ...tiny, dist: { tarball, integrity } } };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ name: tiny.name, "dist-tags": { latest: tiny.version }, versions }));
  } else if (url === "/archives/tiny-package.tgz") {
    response.end(archive);
  } else {
    response.end(JSON.stringify({ method, url, version: httpVersion, headers }));
  }
}

function listening(server: Server, port: number): Promise<void> {
  server.on("tlsClientError", () => undefined);
  return new Promise((resolve) => server.listen(port, "::", resolve));
}
