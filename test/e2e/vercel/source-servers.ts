/**
 * What sandboxes fetch in test/e2e/vercel/sources.test.ts, served inside the network namespace of its internet: the repositories
 * and files of a directory over HTTP on port 8080. Repositories go through git's own CGI program; paths below
 * /private ask for a name and a password, paths below /slow are slow. Prints "ready" and stays until its
 * stdin ends.
 */

import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join, normalize } from "node:path";

const [directory = "", credentials = ""] = process.argv.slice(2);

const server = createServer((request, response) => {
  const url = new URL(request.url ?? "/", "http://localhost");
  const allowed = request.headers.authorization === `Basic ${Buffer.from(credentials).toString("base64")}`;
  if (url.pathname.startsWith("/private") && !allowed) {
    response.writeHead(401, { "www-authenticate": 'Basic realm="private"' }).end();
  } else if (url.pathname.includes(".git/")) {
    repository(request, response, url);
  } else {
    const path = join(directory, normalize(url.pathname.replace(/^\/slow/, "")));
    const send = () =>
      createReadStream(path)
        .on("error", () => response.writeHead(404).end())
        .pipe(response);
    setTimeout(send, url.pathname.startsWith("/slow") ? 700 : 0);
  }
});
server.listen(8080, "::", () => console.log("ready"));
process.stdin.on("end", () => process.exit(0)).resume();

function repository(request: IncomingMessage, response: ServerResponse, url: URL): void {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: directory,
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      // git accepts the repositories whichever user runs the test.
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "safe.directory",
      GIT_CONFIG_VALUE_0: "*",
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? "GET",
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
  backend.on("close", () => {
    const whole = Buffer.concat(chunks);
    const end = whole.indexOf("\r\n\r\n");
    const headers = whole.subarray(0, end).toString().split("\r\n");
    const status = headers.find((line) => /^status:/i.test(line))?.split(" ")[1];
    response.statusCode = Number(status ?? 200);
    for (const line of headers.filter((header) => !/^status:/i.test(header))) {
      const [name = "", value = ""] = line.split(": ");
      if (name) response.setHeader(name, value);
    }
    response.end(whole.subarray(end + 4));
  });
}
