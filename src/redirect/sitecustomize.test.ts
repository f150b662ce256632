/** Tests of Python's preload in a separate interpreter: which requests it redirects, and what it leaves unchanged. */

import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { root, tempDir } from "../../test/harness/harness.ts";
import { demand } from "../../test/runner/needs.ts";

const folder = join(root, "src/redirect/python");

beforeAll(() => demand("the command python3"));

/** a fake httpx, so that the test needs no package to see where requests go */
const httpx = `
class URL:
    def __init__(self, scheme, host, port, raw_path):
        self.scheme, self.host, self.port, self.raw_path = scheme, host, port, raw_path
class Headers:
    def __init__(self, raw):
        self.raw = raw
class Request:
    def __init__(self, method, url, headers, stream, extensions):
        self.method, self.url, self.headers, self.stream, self.extensions = method, url, Headers(headers), stream, extensions
class HTTPTransport:
    def __init__(self, **options):
        self.options = options
    def handle_request(self, request):
        [host] = [value.decode() for name, value in request.headers.raw if name.lower() == b"host"]
        return f"{request.url.scheme} {request.url.host} {request.url.port} {request.url.raw_path.decode()} host={host}"
    def close(self):
        pass
class AsyncHTTPTransport(HTTPTransport):
    async def handle_async_request(self, request):
        return HTTPTransport.handle_request(self, request)
    async def aclose(self):
        pass
`;

const ask = `
import httpx
def ask(scheme, host, path, port=None):
    url = httpx.URL(scheme, host, port, path.encode())
    return httpx.HTTPTransport().handle_request(httpx.Request("GET", url, [(b"Host", host.encode())], None, {}))
`;

test.each([
  [["https", "vercel.com", "/api/v2/x?a=b"], "http 127.0.0.1 7700 /api/v2/x?a=b host=127.0.0.1:7700"],
  [["https", "vercel.com", "/.well-known/x"], "http 127.0.0.1 7700 /.well-known/x host=127.0.0.1:7700"],
  [["https", "api.vercel.com", "/v2/user"], "http 127.0.0.1 7700 /api/v2/user host=127.0.0.1:7700"],
  [["https", "sb-1.vercel.run", "/a?b"], "http 127.0.0.1 7700 /a?b host=sb-1.localhost:7700"],
  [["https", "sb-1.vercel.run", "//example.com/a"], "http 127.0.0.1 7700 //example.com/a host=sb-1.localhost:7700"],
  [["https", "127.0.0.1", "/health"], "http 127.0.0.1 7700 /health host=127.0.0.1:7700"],
  [["https", "localhost", "/health", 7700], "http 127.0.0.1 7700 /health host=127.0.0.1:7700"],
  [["https", "vercel.com", "/apix"], "https vercel.com None /apix host=vercel.com"],
  [["https", "vercel.com", "/api", 8443], "https vercel.com 8443 /api host=vercel.com"],
  [["http", "vercel.com", "/api/x"], "http vercel.com None /api/x host=vercel.com"],
  [["https", "a.b.vercel.run", "/"], "https a.b.vercel.run None / host=a.b.vercel.run"],
  [["https", "vercel.run.example", "/"], "https vercel.run.example None / host=vercel.run.example"],
])("a request for %j is sent as %s", async (parts, sent) => {
  const code = `${ask}\nimport json, sys\nprint(ask(*json.loads(sys.argv[1])))`;
  expect(await python(code, {}, [JSON.stringify(parts)])).toBe(sent);
});

test("names below .localhost resolve to the loopback address, and other names as usual", async () => {
  const code = `import socket
print(sorted({entry[4][0] for entry in socket.getaddrinfo("sb-1.localhost", 80)}) ==
      sorted({entry[4][0] for entry in socket.getaddrinfo("localhost", 80)}), socket.getaddrinfo("127.0.0.9", 80)[0][4][0])`;
  expect(await python(code)).toBe("True 127.0.0.9");
});

test("a sitecustomize module of the user is loaded as well", async () => {
  const theirs = await tempDir();
  await writeFile(join(theirs, "sitecustomize.py"), "import builtins\nbuiltins.theirs = 1\n");
  const path = [folder, folder, theirs].join(":");
  expect(await python(`${ask}\nprint(theirs, ask("https", "vercel.com", "/api"))`, { PYTHONPATH: path })).toBe(
    "1 http 127.0.0.1 7700 /api host=127.0.0.1:7700",
  );
});

test("without SANDKEEP_URL nothing is changed, and a bad one is reported", async () => {
  const code = `${ask}\nprint(ask("https", "vercel.com", "/api"))`;
  const untouched = "https vercel.com None /api host=vercel.com";
  expect(await python(code, { SANDKEEP_URL: "" })).toBe(untouched);
  const bad = await run(code, { SANDKEEP_URL: "127.0.0.1:7700" });
  expect(bad.stdout.trimEnd()).toBe(untouched);
  expect(bad.stderr).toMatch(/^sandkeep\/redirect: Cannot redirect to SANDKEEP_URL "127.0.0.1:7700": .*\n$/);
});

/** the output of a program whose Python loads the preload, with a fake httpx */
async function python(code: string, env: Record<string, string> = {}, args: string[] = []): Promise<string> {
  return (await run(code, env, args)).stdout.trimEnd();
}

async function run(code: string, env: Record<string, string>, args: string[] = []) {
  const library = await tempDir();
  await mkdir(join(library, "httpx"));
  await writeFile(join(library, "httpx/__init__.py"), httpx);
  const { PYTHONPATH = folder, ...rest } = env;
  return promisify(execFile)("/usr/bin/python3", ["-B", "-c", code, ...args], {
    env: { PYTHONPATH: `${PYTHONPATH}:${library}`, SANDKEEP_URL: "http://127.0.0.1:7700", ...rest },
  });
}
