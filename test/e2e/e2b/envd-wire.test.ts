/** envd on the wire, with requests that no client of the vendor's sends: foreign, broken and endless ones. */

import { Agent, request } from "node:http";
import { gzipSync } from "node:zlib";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandboxOf, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);
const sandbox = sandboxOf(() => Sandbox.create({ timeoutMs: 600_000, envs: { FROM: "sandbox" } }));

interface Asking {
  method?: string;
  body?: string | Uint8Array | FormData | ReadableStream;
  headers?: Record<string, string>;
  token?: string | undefined;
  id?: string;
}

/** the token is private to the SDK; every signed address is made with it */
const tokenOf = (of: Sandbox) => (of as unknown as { envdAccessToken: string }).envdAccessToken;

async function ask(path: string, asking: Asking = {}): Promise<Response> {
  const { method = "POST", body, headers = {}, id = sandbox().sandboxId } = asking;
  const token = "token" in asking ? asking.token : tokenOf(sandbox());
  return fetch(new URL(path, daemon().url), {
    method,
    headers: {
      "e2b-sandbox-id": id,
      "e2b-sandbox-port": "49983",
      ...(token !== undefined && { "x-access-token": token }),
      ...(typeof body === "string" && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body, duplex: "half" }),
  } as RequestInit); // Node requires `duplex` for streams, which its types lack
}

const rpc = (method: string, message: unknown, asking: Asking = {}) =>
  ask(`/${method}`, { ...asking, body: JSON.stringify(message) });

const files = "filesystem.Filesystem";
const processes = "process.Process";

function envelope(message: string | Uint8Array, flags = 0): Uint8Array {
  const bytes = Buffer.from(message);
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

async function streamed(method: string, body: Uint8Array, headers: Record<string, string> = {}): Promise<Message[]> {
  const answer = await ask(`/${method}`, { body, headers: { "content-type": "application/connect+json", ...headers } });
  expect(answer.status).toBe(200);
  return messagesIn(Buffer.from(await answer.arrayBuffer()));
}

interface Message {
  flags: number;
  message: {
    error?: { code: string };
    event?: { start?: { pid: number }; data?: Record<string, string>; end?: { exitCode: number } };
    keepalive?: object;
  };
}

function messagesIn(bytes: Buffer): Message[] {
  const found: Message[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    found.push({ flags: bytes.readUInt8(at), message: JSON.parse(bytes.subarray(at + 5, end).toString()) });
    at = end;
  }
  return found;
}

const start = (cmd: string, args: string[], more: object = {}) =>
  envelope(JSON.stringify({ process: { cmd, args }, stdin: false, ...more }));

test("only the sandbox's own token gives access, and a sandbox that does not run is 502 for all", async () => {
  const other = await Sandbox.create();
  const paths = [`/${files}/Stat`, "/files/compose", "/envs", "/files?path=/etc/hosts"];
  for (const path of paths) {
    const method = /envs|files\?/.test(path) ? "GET" : "POST";
    const status = async (asking: Asking) =>
      (await ask(path, { method, ...(method === "POST" && { body: "{}" }), ...asking })).status;
    expect(await status({ token: undefined })).toBe(401);
    expect(await status({ token: "" })).toBe(401);
    expect(await status({ token: tokenOf(other) })).toBe(401);
    expect(await status({ token: `${tokenOf(sandbox()).slice(0, -1)}0`.replace(/.$/, "x") })).toBe(401);
    expect(await status({ id: other.sandboxId })).toBe(401);
    for (const id of ["i1", "x", "../..", "i".repeat(500), ""]) expect(await status({ id })).toBe(502);
  }
  expect((await ask("/health", { method: "GET", token: undefined })).status).toBe(204);
  await other.kill();
  const gone = await rpc(`${files}/Stat`, { path: "/" }, { id: other.sandboxId, token: tokenOf(other) });
  const notFound = { sandboxId: other.sandboxId, message: "The sandbox was not found", code: 502 };
  expect([gone.status, await gone.json()]).toEqual([502, notFound]);
  expect((await ask("/health", { method: "GET", id: other.sandboxId })).status).toBe(502);
  for (const path of ["/init", "/nothing", "/process.Process/Nothing", "/v1/sandboxes", "/sandkeep/v1/keys"]) {
    expect((await rpc(path.slice(1), {})).status).toBe(404);
  }
  expect((await ask(`/${files}/Stat`, { method: "GET" })).status).toBe(405);
});

test("the host name of a sandbox serves its envd, and nothing else of the daemon", async () => {
  const { port } = new URL(daemon().url);
  const at = (host: string, path: string, headers: Record<string, string> = {}) =>
    fetch(`http://${host}.localhost:${port}${path}`, { headers });
  const host = `49983-${sandbox().sandboxId}`;
  expect((await at(host, "/health")).status).toBe(204);
  const token = { "x-access-token": tokenOf(sandbox()) };
  expect(await (await at(host, "/envs", token)).json()).toMatchObject({ FROM: "sandbox" });
  expect((await at(host, "/sandboxes", { "x-api-key": daemon().key })).status).toBe(401);
  expect((await at(host, "/sandboxes", { ...token, "x-api-key": daemon().key })).status).toBe(404);
  expect((await at("49983-i1", "/health")).status).toBe(502);
  const metrics = await (await at(host, "/metrics", token)).json();
  expect(metrics).toMatchObject({ cpu_count: expect.any(Number), mem_used: expect.any(Number) });
});

test("broken messages are refused with errors of Connect, and change nothing", async () => {
  const bad = async (method: string, body: string | Uint8Array, headers = {}) => {
    const answer = await ask(`/${method}`, { body, headers: { "content-type": "application/json", ...headers } });
    return [answer.status, ((await answer.json()) as { code: string }).code];
  };
  expect(await bad(`${files}/Stat`, "{")).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Stat`, '{"path":7}')).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Stat`, `{"path":"${"x".repeat(5000)}"}`)).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Stat`, '{"path":"/a\\u0000b"}')).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Stat`, `${"[".repeat(300)}`)).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Stat`, Buffer.alloc(17 << 20, 32))).toEqual([429, "resource_exhausted"]);
  expect(await bad(`${files}/Stat`, gzipSync(Buffer.alloc(64 << 20)), { "content-encoding": "gzip" })).toEqual([
    429,
    "resource_exhausted",
  ]);
  expect(await bad(`${files}/Stat`, "x", { "content-type": "application/proto" })).toEqual([501, "unimplemented"]);
  expect(await bad(`${files}/Remove`, '{"path":"/"}')).toEqual([400, "invalid_argument"]);
  expect(await bad(`${files}/Remove`, '{"path":"../.."}')).toEqual([400, "invalid_argument"]);
  expect(await bad(`${processes}/SendInput`, '{"process":{"pid":1},"input":{"stdin":"é"}}')).toEqual([
    400,
    "invalid_argument",
  ]);
  expect(await bad(`${processes}/SendInput`, '{"process":{"pid":1},"input":{"stdin":"YQ=="}}')).toEqual([
    404,
    "not_found",
  ]);
  expect(await bad(`${processes}/SendSignal`, '{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}')).toEqual([
    404,
    "not_found",
  ]);
  expect(await bad(`${files}/GetWatcherEvents`, '{"watcherId":"w1"}')).toEqual([404, "not_found"]);
  const ends = async (body: Uint8Array, headers = {}) =>
    (await streamed(`${processes}/Start`, body, headers)).map(({ message }) => message.error?.code);
  expect(await ends(Buffer.from([0, 0, 0]))).toEqual(["invalid_argument"]);
  expect(await ends(Buffer.from([0, 0, 0, 0, 9, 123]))).toEqual(["invalid_argument"]);
  expect(await ends(Buffer.from([0, 255, 255, 255, 255]))).toEqual(["resource_exhausted"]);
  expect(await ends(envelope("{}", 1), { "connect-content-encoding": "br" })).toEqual(["unimplemented"]);
  expect(await ends(start("no-such-program", []))).toEqual(["invalid_argument"]);
  expect(await ends(start("true", [], { pty: { size: { cols: 0, rows: 0 } } }))).toEqual(["invalid_argument"]);
  const numbered = await rpc(`${files}/Stat`, { path: "/" }, { headers: { authorization: `Basic ${btoa("0:")}` } });
  expect([numbered.status, await numbered.json()]).toEqual([
    401,
    { code: "unauthenticated", message: "invalid username: '0'" },
  ]);
});

test("binary output arrives as it is, and a tag, input stream and signals reach a process", async () => {
  const script = "printf '\\000\\377\\200'; head -c 200000 /dev/urandom | tee copy; sha256sum < copy >&2";
  const messages = await streamed(`${processes}/Start`, start("/bin/bash", ["-c", script]));
  const bytes = (kind: string) =>
    Buffer.concat(messages.map(({ message }) => Buffer.from(message.event?.data?.[kind] ?? "", "base64")));
  const digest = await crypto.subtle.digest("SHA-256", bytes("stdout").subarray(3));
  expect(bytes("stdout").subarray(0, 3)).toEqual(Buffer.from([0, 255, 128]));
  expect(bytes("stderr").toString()).toBe(`${Buffer.from(digest).toString("hex")}  -\n`);
  expect(messages.at(-1)).toEqual({ flags: 2, message: {} });

  const controller = new AbortController();
  const tagged = await fetch(new URL(`/${processes}/Start`, daemon().url), {
    method: "POST",
    signal: controller.signal,
    headers: {
      "e2b-sandbox-id": sandbox().sandboxId,
      "x-access-token": tokenOf(sandbox()),
      "content-type": "application/connect+json",
      "keepalive-ping-interval": "1",
    },
    body: start("/bin/cat", [], { stdin: true, tag: "reader" }),
  });
  const reader = tagged.body?.getReader();
  await reader?.read();
  const process = { tag: "reader" };
  const twice = [
    { start: { process } },
    { data: { input: { stdin: btoa("one ") } } },
    { keepalive: {} },
    { data: { input: { stdin: btoa("two") } } },
  ];
  const sent = Buffer.concat(twice.map((message) => envelope(JSON.stringify(message))));
  expect(await streamed(`${processes}/StreamInput`, sent)).toEqual([
    { flags: 0, message: {} },
    { flags: 2, message: {} },
  ]);
  let seen = Buffer.alloc(0);
  while (!messagesIn(seen).some(({ message }) => message.event && "keepalive" in message.event)) {
    seen = Buffer.concat([seen, (await reader?.read())?.value ?? Buffer.alloc(0)]);
  }
  const said = messagesIn(seen).map(({ message }) =>
    Buffer.from(message.event?.data?.stdout ?? "", "base64").toString(),
  );
  expect(said.join("")).toBe("one two");
  controller.abort();
  expect((await rpc(`${processes}/SendSignal`, { process, signal: "SIGNAL_SIGTERM" })).status).toBe(200);
  await expect
    .poll(
      async () =>
        (await streamed(`${processes}/Connect`, envelope(JSON.stringify({ process })))).at(-2)?.message.event?.end,
    )
    .toMatchObject({ exitCode: -1, status: "signal: terminated" });
});

test("a connection serves many calls, including streams and forms, and is not cut after any", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set<unknown>();
  const call = (path: string, type: string, body: Uint8Array) =>
    new Promise<number>((resolve, reject) => {
      const { sandboxId } = sandbox();
      const headers = { "e2b-sandbox-id": sandboxId, "x-access-token": tokenOf(sandbox()), "content-type": type };
      const asked = request(new URL(path, daemon().url), { agent, method: "POST", headers }, (answer) => {
        answer.resume().once("end", () => resolve(answer.statusCode ?? 0));
      });
      asked.once("socket", (socket) => sockets.add(socket)).once("error", reject);
      // In pieces, without a length, as the SDK sends forms.
      asked.write(body);
      asked.end();
    });
  const form = '--b\r\ncontent-disposition: form-data; name="file"; filename="/tmp/form"\r\n\r\nx\r\n--b--\r\n';
  const began = Date.now();
  // The server ends a connection half a second after an answer whose request it has not read.
  while (Date.now() - began < 1500) {
    expect(await call("/files", "multipart/form-data; boundary=b", Buffer.from(form))).toBe(200);
    expect(await call(`/${processes}/Start`, "application/connect+json", start("true", []))).toBe(200);
    expect(await call(`/${files}/Stat`, "application/json", Buffer.from('{"path":"/tmp"}'))).toBe(200);
  }
  expect(sockets.size).toBe(1);
  agent.destroy();
});

test("a slow reader costs no memory, and neither do gigabytes of output", async () => {
  const answer = await ask(`/${processes}/Start`, {
    body: start("/bin/bash", ["-c", "head -c 400000000 /dev/zero; echo end"]),
    headers: { "content-type": "application/connect+json" },
  });
  const reader = answer.body?.getReader();
  await reader?.read();
  await expect
    .poll(async () => (await rpc(`${processes}/List`, {})).json(), { timeout: 60_000 })
    .toEqual({ processes: [] });
  expect(await residentMegabytes()).toBeLessThan(500);
  await reader?.cancel();
}, 90_000);

async function residentMegabytes(): Promise<number> {
  const { readFile } = await import("node:fs/promises");
  return Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${daemon().pid}/status`, "utf8"))?.[1]) / 1024;
}

test("watchers are polled, bounded and gone when they are removed", async () => {
  await rpc(`${files}/MakeDir`, { path: "/tmp/polled" });
  const create = () => rpc(`${files}/CreateWatcher`, { path: "/tmp/polled", recursive: true });
  const { watcherId } = (await (await create()).json()) as { watcherId: string };
  await ask("/files?path=/tmp/polled/a", {
    body: Buffer.from("1"),
    headers: { "content-type": "application/octet-stream" },
  });
  const seen: string[] = [];
  await expect
    .poll(async () => {
      const { events } = (await (await rpc(`${files}/GetWatcherEvents`, { watcherId })).json()) as {
        events: { name: string; type: string }[];
      };
      seen.push(...events.map(({ name, type }) => `${type} ${name}`));
      return seen;
    })
    .toEqual(expect.arrayContaining(["EVENT_TYPE_CREATE a", "EVENT_TYPE_WRITE a"]));
  const more = await Promise.all(Array.from({ length: 300 }, create));
  const made = more.filter(({ status }) => status === 200);
  expect(new Set(more.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(made.length).toBeLessThan(64);
  const ids = await Promise.all(made.map(async (answer) => ((await answer.json()) as { watcherId: string }).watcherId));
  const foreign = await Sandbox.create();
  const asOther = { id: foreign.sandboxId, token: tokenOf(foreign) };
  expect((await rpc(`${files}/RemoveWatcher`, { watcherId }, asOther)).status).toBe(404);
  await foreign.kill();
  for (const id of [watcherId, ...ids])
    expect((await rpc(`${files}/RemoveWatcher`, { watcherId: id })).status).toBe(200);
  expect((await rpc(`${files}/RemoveWatcher`, { watcherId })).status).toBe(404);
  const streams = new AbortController();
  const watching = Array.from({ length: 200 }, () =>
    fetch(new URL(`/${files}/WatchDir`, daemon().url), {
      method: "POST",
      signal: streams.signal,
      headers: {
        "e2b-sandbox-id": sandbox().sandboxId,
        "x-access-token": tokenOf(sandbox()),
        "content-type": "application/connect+json",
      },
      body: envelope('{"path":"/tmp/polled"}'),
    }).then(async (answer) =>
      Buffer.from((await answer.body?.getReader().read())?.value ?? [])
        .subarray(5)
        .toString(),
    ),
  );
  const first = await Promise.all(watching);
  expect(first.every((text) => text === '{"start":{}}' || text.includes("resource_exhausted"))).toBe(true);
  expect(first).toContain('{"start":{}}');
  streams.abort();
  // Each was a process inside: all of them end, and the sandbox keeps running.
  await expect
    .poll(async () => (await sandbox().commands.run("ls /proc | grep -c '^[0-9]'")).stdout.trim())
    .toMatch(/^\d$/);
});

test("paths stay inside the sandbox, through links too", async () => {
  await sandbox().commands.run(
    "ln -sfn / /tmp/up; ln -sfn /tmp/loop /tmp/loop; ln -sfn ../../../../../../etc /tmp/etc",
  );
  const read = async (path: string) => (await ask(`/files?path=${encodeURIComponent(path)}`, { method: "GET" })).text();
  const inside = (await sandbox().commands.run("cat /etc/passwd")).stdout;
  for (const path of [
    "/../../etc/passwd",
    "../../etc/passwd",
    "/tmp/up/etc/passwd",
    "/tmp/etc/passwd",
    "~/../../etc/passwd",
  ]) {
    expect(await read(path)).toBe(inside);
  }
  expect((await ask("/files?path=/tmp/loop", { method: "GET" })).status).toBe(400);
  expect((await ask("/files?path=/dev/zero", { method: "GET" })).status).toBe(400);
  expect((await ask("/files?path=/tmp", { method: "GET" })).status).toBe(400);
  expect((await ask("/files?path=%00", { method: "GET" })).status).toBe(400);
  expect((await ask(`/files?path=/${"x".repeat(5000)}`, { method: "GET" })).status).toBe(400);
  expect((await ask("/files?path=/etc/hosts&username=stranger", { method: "GET" })).status).toBe(401);
  // The kernel would take a number for a user. Here the code of an error is a number, too.
  const numbered = await ask("/files?path=/etc/hosts&username=0", { method: "GET" });
  expect([numbered.status, await numbered.json()]).toEqual([401, { code: 401, message: "invalid username: '0'" }]);
});

test("parts of files, compressed ones and unchanged ones are sent as asked", async () => {
  await sandbox().files.write("/tmp/ten.html", "0123456789");
  const get = async (headers: Record<string, string>) => {
    const answer = await ask("/files?path=/tmp/ten.html", { method: "GET", headers });
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  };
  const whole = await get({});
  expect(whole).toMatchObject({ status: 200, text: "0123456789" });
  expect(Object.fromEntries(whole.headers)).toMatchObject({
    "content-length": "10",
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "sandbox",
    "x-content-type-options": "nosniff",
    "accept-ranges": "bytes",
  });
  const part = await get({ range: "bytes=2-4" });
  expect([part.status, part.text, part.headers.get("content-range")]).toEqual([206, "234", "bytes 2-4/10"]);
  const beyond = await get({ range: "bytes=10-" });
  expect([beyond.status, beyond.headers.get("content-range")]).toEqual([416, "bytes */10"]);
  const packed = await get({ "accept-encoding": "gzip" });
  expect([packed.text, packed.headers.get("content-encoding")]).toEqual(["0123456789", "gzip"]);
  expect((await get({ "accept-encoding": "br, identity;q=0" })).status).toBe(406);
  const modified = whole.headers.get("last-modified") ?? "";
  expect((await get({ "if-modified-since": modified })).status).toBe(304);
  expect((await get({ range: "bytes=2-4", "if-range": "Thu, 01 Jan 1970 00:00:00 GMT" })).status).toBe(200);
});

test("broken uploads write nothing, and existing files stay", async () => {
  await sandbox().files.write("/tmp/kept", "kept");
  const put = async (body: Asking["body"], headers: Record<string, string>, path = "/tmp/kept") =>
    (await ask(`/files?path=${path}`, { ...(body !== undefined && { body }), headers })).status;
  const octets = { "content-type": "application/octet-stream" };
  expect(await put(Buffer.from("no gzip"), { ...octets, "content-encoding": "gzip" })).toBe(400);
  expect(await put(gzipSync("cut off").subarray(0, 15), { ...octets, "content-encoding": "gzip" })).toBe(400);
  expect(await put(Buffer.from("x"), { ...octets, "content-encoding": "br" })).toBe(400);
  expect(await put(Buffer.from("--b\r\n"), { "content-type": "multipart/form-data; boundary=b" })).toBe(400);
  expect(await put(Buffer.from("x"), { "content-type": "multipart/form-data" })).toBe(400);
  const half = '--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\nhalf';
  expect(await put(Buffer.from(half), { "content-type": "multipart/form-data; boundary=b" })).toBe(400);
  expect(await put(Buffer.from("x"), { "content-type": "text/plain" })).toBe(400);
  expect(await put(Buffer.from("x"), octets, "/etc")).toBe(400);
  expect(await put(Buffer.from("x"), octets, "/etc/hosts/below")).toBe(400);
  expect(await put(Buffer.from("x"), octets, "")).toBe(400);
  // Metadata that cannot be stored is refused instead of ignored.
  expect(await put(Buffer.from("x"), { ...octets, "x-metadata-owner": "m\u00e9" })).toBe(400);
  expect(await put(Buffer.from("x"), { ...octets, "x-metadata-owner": "m".repeat(4096) })).toBe(400);
  expect(await put(Buffer.from("x"), { ...octets, [`x-metadata-${"k".repeat(247)}`]: "v" })).toBe(400);
  expect(await sandbox().files.read("/tmp/kept")).toBe("kept");
  expect((await sandbox().commands.run("ls -a /tmp | grep -c new$ || true")).stdout).toBe("0\n");
});

test.each(["pause", "kill"] as const)("an upload is answered 502 after a %s of its sandbox", async (ending) => {
  const other = await Sandbox.create();
  const [begun, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const pieces = async function* () {
    yield Buffer.alloc(1 << 20);
    begun.resolve();
    await over.promise;
  };
  const upload = { body: ReadableStream.from(pieces()), id: other.sandboxId, token: tokenOf(other) };
  const answer = ask("/files?path=/late", { ...upload, headers: { "content-type": "application/octet-stream" } });
  await begun.promise.then(() => other[ending]());
  over.resolve();
  expect((await answer).status).toBe(502);
});

test("files are joined in order, and their pieces are deleted", async () => {
  for (const piece of ["1", "2", "3"]) await sandbox().files.write(`piece${piece}`, piece.repeat(3));
  const body = JSON.stringify({ source_paths: ["piece2", "/home/user/piece1", "piece3"], destination: "joined/all" });
  const answer = await ask("/files/compose", { body });
  expect([answer.status, await answer.json()]).toEqual([
    200,
    { path: "/home/user/joined/all", name: "all", type: "file" },
  ]);
  expect(await sandbox().files.read("joined/all")).toBe("222111333");
  expect(await sandbox().files.exists("piece1")).toBe(false);
  const missing = JSON.stringify({ source_paths: ["joined/all", "none"], destination: "x" });
  expect((await ask("/files/compose", { body: missing })).status).toBe(404);
  expect(await sandbox().files.exists("joined/all")).toBe(true);
});

test("100 MB go up and come down, and the daemon's memory stays flat", async () => {
  const size = 100 << 20;
  const piece = Buffer.alloc(1 << 20, "0123456789abcdef");
  const before = await residentMegabytes();
  let left = size / piece.length;
  const body = new ReadableStream({
    pull: (controller) => (left-- > 0 ? controller.enqueue(piece) : controller.close()),
  });
  const up = await ask("/files?path=/tmp/large", { body, headers: { "content-type": "application/octet-stream" } });
  expect(up.status).toBe(200);
  const down = await ask("/files?path=/tmp/large", { method: "GET" });
  let count = 0;
  for await (const chunk of down.body ?? []) count += chunk.length;
  expect(count).toBe(size);
  expect((await residentMegabytes()) - before).toBeLessThan(150);
}, 90_000);
