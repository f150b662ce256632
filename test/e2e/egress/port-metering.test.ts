/** Bytes in through a sandbox's ports count as ingress and its answers as egress, wherever bytes are shown. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { type AnySandbox, accessTo, raw, sdks } from "../clients.ts";

const daemon = daemonOfFile();
const { Sandbox } = sdks["3.5.0"];

/** sends and takes bodies of any size and echoes on WebSockets; port 4000 reports what port 3000's sockets carried */
const server = `
const { createHash } = require("node:crypto"), { createServer } = require("node:http");
const sockets = new Set();
const server = createServer((request, response) => {
  const size = Number(new URL(request.url, "http://x").searchParams.get("size") ?? 2);
  request.on("data", () => {}).on("end", () => response.end(Buffer.alloc(size, "x")));
});
server.on("connection", (socket) => sockets.add(socket.on("error", () => {})));
server.on("upgrade", (request, socket) => {
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\nsec-websocket-accept: " + accept + "\\r\\n\\r\\n");
  socket.on("data", (frame) => {
    if ((frame[0] & 15) === 8) return socket.end(Buffer.from([0x88, 0]));
    const length = frame[1] & 127, mask = frame.subarray(2, 6), data = Buffer.from(frame.subarray(6, 6 + length));
    for (let i = 0; i < length; i++) data[i] ^= mask[i % 4];
    socket.write(Buffer.concat([Buffer.from([0x81, length]), data]));
  });
});
createServer((request, response) => {
  const all = [...sockets], sum = (field) => all.reduce((total, socket) => total + socket[field], 0);
  response.end(JSON.stringify({ connections: all.length, bytesIn: sum("bytesRead"), bytesOut: sum("bytesWritten") }));
}).listen(4000, "127.0.0.1", () => server.listen(3000, "127.0.0.1", () => console.log("listening")));
`;

test.each(["allow-all", "deny-all"] as const)(
  "under %s bytes by port are those that client and server counted",
  async (networkPolicy) => {
    const sandbox = await Sandbox.create({
      ...accessTo(daemon()),
      ports: [3000, 4000],
      persistent: false,
      networkPolicy,
    });
    await serve(sandbox);

    expect((await ask(sandbox, 3000, "/?size=5000000")).length).toBe(5_000_000);
    const download = await agreed(sandbox, 1);
    expect(download.bytesOut - 5_000_000).toBeLessThan(1000);

    await ask(sandbox, 3000, "/", { method: "POST", body: "y".repeat(3_000_000) });
    const upload = await agreed(sandbox, 2);
    expect(upload.bytesIn - download.bytesIn - 3_000_000).toBeGreaterThan(0);
    expect(upload.bytesIn - download.bytesIn - 3_000_000).toBeLessThan(1000);

    const socket = new WebSocket(daemon().url.replace("http", "ws"), { headers: { host: hostOf(sandbox, 3000) } });
    await once(socket, "open");
    const opened = await agreed(sandbox, 3);
    for (let length = 1; length <= 100; length++) {
      socket.send("z".repeat(length));
      await once(socket, "message");
    }
    // A frame of the client has a mask of 4 bytes, besides the 2 that both directions have.
    const chatted = await agreed(sandbox, 3);
    expect(chatted.bytesIn - opened.bytesIn).toBe(5050 + 600);
    expect(chatted.bytesOut - opened.bytesOut).toBe(5050 + 200);
    socket.close();
    await once(socket, "close");

    await Promise.all(
      Array.from({ length: 10 }, async () => {
        for (let n = 0; n < 20; n++) expect((await ask(sandbox, 3000, "/")).length).toBe(2);
      }),
    );
    await agreed(sandbox, 203);

    const { ports, hosts, totals } = await page(sandbox.name);
    expect(hosts).toEqual([]);
    expect(totals.payload).toEqual({
      bytesIn: ports[0].bytesIn + ports[1].bytesIn,
      bytesOut: ports[0].bytesOut + ports[1].bytesOut,
    });
    const connections = ports[0].connections + ports[1].connections;
    for (const way of ["bytesIn", "bytesOut"]) {
      expect(totals.packets[way]).toBeGreaterThan(totals.payload[way]);
      expect(totals.packets[way]).toBeLessThan(totals.payload[way] * 1.1 + 2000 * connections);
    }
    await sandbox.delete();
  },
);

test("bytes by port survive restarts, stops and resumes, and add up over sessions", async () => {
  const sandbox = await Sandbox.create({ ...accessTo(daemon()), ports: [3000, 4000] });
  await serve(sandbox);
  await ask(sandbox, 3000, "/?size=100000");
  const before = await agreed(sandbox, 1);
  await daemon().kill9();
  await daemon().start();
  await ask(sandbox, 3000, "/?size=100000");
  const after = await agreed(sandbox, 2);
  expect(after.bytesOut).toBe(2 * before.bytesOut);

  const session = sandbox.currentSession().sessionId;
  const { ports, totals } = await page(sandbox.name);
  await sandbox.stop();
  const stopped = await eventually("the end is on record", async () => {
    const { networkTransfer } = (await raw(daemon(), "GET", `/v2/sandboxes/sessions/${session}`)).json.session;
    return networkTransfer.egress > 0 ? networkTransfer : undefined;
  });
  const later = await page(session, "sessions");
  expect(later.ports).toEqual(ports);
  expect(later.totals.payload).toEqual(totals.payload);
  expect(later.totals.packets).toEqual({ bytesIn: stopped.ingress, bytesOut: stopped.egress });
  expect(stopped.egress).toBeGreaterThan(200_000);
  expect(stopped.ingress).toBeGreaterThanOrEqual(totals.packets.bytesIn);

  const again = await Sandbox.get({ ...accessTo(daemon()), name: sandbox.name, resume: true });
  expect((await page(again.name)).ports).toEqual([]);
  await serve(again);
  await ask(again, 3000, "/?size=100000");
  await agreed(again, 1);
  await again.stop();
  const summed = await eventually("both sessions are in the totals", async () => {
    const { totalEgressBytes, totalIngressBytes } = (await raw(daemon(), "GET", `/v2/sandboxes/${again.name}`)).json
      .sandbox;
    return totalEgressBytes > stopped.egress ? { totalEgressBytes, totalIngressBytes } : undefined;
  });
  const second = await page(again.name);
  expect(summed).toEqual({
    totalEgressBytes: stopped.egress + second.totals.packets.bytesOut,
    totalIngressBytes: stopped.ingress + second.totals.packets.bytesIn,
  });
  await again.delete();
});

test("the command line shows bytes by port", async () => {
  const sandbox = await Sandbox.create({ ...accessTo(daemon()), ports: [3000, 4000], persistent: false });
  await serve(sandbox);
  await ask(sandbox, 3000, "/?size=20000");
  await agreed(sandbox, 1);
  expect(await cli(sandbox.name)).toMatch(/\n\nPORT +CONNECTIONS +IN +OUT\n3000 +1 +\d+ bytes +20\.\d kB\n4000 +\d+ /);
  // The last of them may still be closing.
  await eventually("the same is said over HTTP", async () => {
    const { hosts, ports, totals } = await page(sandbox.name);
    expect(JSON.parse(await cli(sandbox.name, "--json"))).toEqual({ hosts, ports, totals });
    return true;
  });
  await sandbox.delete();
});

/** the parts of a sandbox used here: a resumed one has another type */
type Served = Pick<AnySandbox, "name" | "routes" | "runCommand">;

interface Traffic {
  connections: number;
  bytesIn: number;
  bytesOut: number;
}

/** the daemon's counts for port 3000, once they equal those of its server */
async function agreed(sandbox: Served, connections: number): Promise<Traffic> {
  return eventually(`the server's ${connections} connections are counted`, async () => {
    const seen: Traffic = JSON.parse(String(await ask(sandbox, 4000, "/")));
    const { ports } = await page(sandbox.name);
    expect(ports.find(({ port }: { port: number }) => port === 3000)).toEqual({ port: 3000, ...seen, connections });
    return seen;
  });
}

async function page(name: string, kind = "sandboxes") {
  const answer = await raw(daemon(), "GET", `/sandkeep/v1/${kind}/${name}/egress`);
  expect(answer.status).toBe(200);
  return answer.json;
}

async function serve(sandbox: Served): Promise<void> {
  const command = await sandbox.runCommand({ cmd: "node", args: ["-e", server], detached: true });
  for await (const line of command.logs()) if (line.data.includes("listening")) return;
  throw new Error("The server ended before it listened");
}

/** the body of the answer to a request with that host name, which needs no resolver */
async function ask(sandbox: Served, port: number, path: string, init: RequestOptions = {}): Promise<Buffer> {
  const { hostname, port: daemonPort } = new URL(daemon().url);
  const { method = "GET", body = "" } = init;
  const headers = { host: hostOf(sandbox, port), "content-length": Buffer.byteLength(body) };
  const asked = request({ hostname, port: daemonPort, path, method, headers }).end(body);
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  return buffer(answer);
}

interface RequestOptions {
  method?: string;
  body?: string;
}

function hostOf(sandbox: Served, port: number): string {
  const url = sandbox.routes.find((route) => route.port === port)?.url;
  if (url === undefined) throw new Error(`Port ${port} has no route`);
  return new URL(url).host;
}

async function cli(...args: string[]): Promise<string> {
  const env = { ...process.env, SANDKEEP_API_KEY: daemon().key, SANDKEEP_URL: daemon().url };
  const command = [join(root, "src/main.ts"), "egress", ...args];
  return (await promisify(execFile)(process.execPath, command, { env })).stdout;
}
