/** Ports: servers in a sandbox are reached from outside, over HTTP and WebSocket; for others there is an error. */

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type AnySandbox, raw, waysTo } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

/** answers with the request it got, and echoes on WebSockets, with a hand-written protocol */
const server = `
const { createHash } = require("node:crypto");
const server = require("node:http").createServer(async (request, response) => {
  const body = [];
  for await (const chunk of request) body.push(chunk);
  if (request.url === "/slow") { response.write("first\\n"); setTimeout(() => response.end("second\\n"), 200); return; }
  if (request.url === "/big") { response.end(Buffer.alloc(5000000, "x")); return; }
  response.writeHead(201, { "x-mine": "yes", "set-cookie": ["a=1", "b=2"] });
  response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(body).toString() }));
});
server.on("upgrade", (request, socket) => {
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\nsec-websocket-accept: " + accept + "\\r\\n\\r\\n");
  socket.on("data", (frame) => {
    const length = frame[1] & 127, mask = frame.subarray(2, 6), data = Buffer.from(frame.subarray(6, 6 + length));
    if ((frame[0] & 15) === 8) return socket.end(Buffer.from([0x88, 0]));
    for (let i = 0; i < length; i++) data[i] ^= mask[i % 4];
    socket.write(Buffer.concat([Buffer.from([0x81, length]), data]));
  });
  socket.on("error", () => socket.destroy());
});
server.listen(Number(process.argv[1]), () => console.log("listening"));
`;

describe.each(waysTo(daemon))("$name", (way) => {
  test("a sandbox's servers are reached at its domain, as long as the sandbox exists", async () => {
    const sandbox = await way.Sandbox.create({ ...way.auth, ports: [3000, 4000] });
    const [route] = sandbox.routes;
    expect(route).toMatchObject({
      port: 3000,
      subdomain: expect.stringMatching(/^sb-[a-z0-9]{12}$/),
      url: `http://${route?.subdomain}.localhost:${new URL(daemon().url).port}`,
    });
    expect(sandbox.domain(3000)).toBe(`https://${route?.subdomain}.vercel.run`);
    expect(() => sandbox.domain(9999)).toThrow();
    await serve(sandbox, 3000);
    // The SDK's own address of the port, which the preload redirects to the daemon.
    const answer = await fetch(`${sandbox.domain(3000)}/path?q=1`, {
      method: "POST",
      body: "sent",
      headers: { "x-own": "1" },
    });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("x-mine")).toBe("yes");
    expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(await answer.json()).toMatchObject({
      method: "POST",
      url: "/path?q=1",
      body: "sent",
      headers: { "x-own": "1" },
    });
    const direct = await ask(route?.url ?? "", "/direct");
    expect(JSON.parse(direct.body).headers.host).toBe(new URL(route?.url ?? "").host);
    expect(await (await fetch(`${sandbox.domain(3000)}/slow`)).text()).toBe("first\nsecond\n");
    expect((await (await fetch(`${sandbox.domain(3000)}/big`)).arrayBuffer()).byteLength).toBe(5_000_000);
    expect((await fetch(sandbox.domain(4000))).status).toBe(502);

    await sandbox.stop();
    const stopped = await fetch(sandbox.domain(3000));
    expect([stopped.status, (await stopped.text()).includes("SANDBOX_STOPPED")]).toEqual([410, true]);
    await serve(sandbox, 3000);
    expect((await fetch(sandbox.domain(3000))).status).toBe(201);

    await sandbox.update({ ports: [4000] });
    const removed = await ask(route?.url ?? "", "/");
    expect([removed.status, removed.body.includes("SANDBOX_NOT_FOUND")]).toEqual([404, true]);
    const [kept] = sandbox.routes;
    expect((await ask(kept?.url ?? "", "/")).status).toBe(502);
    await sandbox.delete();
    expect((await ask(kept?.url ?? "", "/")).status).toBe(404);
  });
});

describe("the ingress", () => {
  const [way] = waysTo(daemon);
  if (!way) throw new Error("There is no SDK");

  test("carries WebSockets, and ends them with the session", async () => {
    const sandbox = await way.Sandbox.create({ ...way.auth, ports: [3000], persistent: false });
    await serve(sandbox, 3000);
    const { host } = new URL(sandbox.routes[0]?.url ?? "");
    const socket = new WebSocket(daemon().url.replace("http", "ws"), { headers: { host } });
    await once(socket, "open");
    for (const word of ["hello", "wörld"]) {
      socket.send(word);
      const [echo] = await once(socket, "message");
      expect(String(echo)).toBe(word);
    }
    const closed = once(socket, "close");
    await sandbox.stop();
    await closed;
    const late = new WebSocket(daemon().url.replace("http", "ws"), { headers: { host } });
    const [error] = await once(late, "error");
    expect(String(error)).toContain("410");
    await sandbox.delete();
  });

  test("leads to the shell server of old command lines, and to no other port without a route", async () => {
    const sandbox = await way.Sandbox.create({ ...way.auth, persistent: false });
    const { sessionId } = sandbox.currentSession();
    const { json } = await raw(daemon(), "GET", `/v2/sandboxes/sessions/${sessionId}?__includeSystemRoutes=true`);
    const [route] = json.routes;
    expect(route).toMatchObject({ port: json.session.interactivePort, system: true });
    expect((await ask(route.url, "/")).status).toBe(502);
    await Promise.all([serve(sandbox, route.port), serve(sandbox, 3000)]);
    expect((await ask(route.url, "/")).status).toBe(201);
    expect((await ask(route.url.replace(`${route.port}-`, "3000-"), "/")).status).toBe(404);
    await sandbox.stop();
    expect((await ask(route.url, "/")).status).toBe(410);
    await sandbox.delete();
  });

  test("refuses unknown host names", async () => {
    const { port } = new URL(daemon().url);
    const answer = await ask(`http://sb-000000000000.localhost:${port}`, "/");
    expect(answer.status).toBe(404);
    expect(answer.body).toContain("SANDBOX_NOT_FOUND");
    // A sandbox's host is not the API's: no route of ours answers there.
    const api = await ask(`http://sb-000000000000.localhost:${port}`, "/health");
    expect(api.status).toBe(404);
  });

  test("does not show a sandbox's port to another sandbox", async () => {
    const sandbox = await way.Sandbox.create({ ...way.auth, ports: [3000], persistent: false });
    const other = await way.Sandbox.create({ ...way.auth, ports: [3000], persistent: false });
    await serve(other, 3000);
    expect((await ask(other.routes[0]?.url ?? "", "/")).status).toBe(201);
    expect((await ask(sandbox.routes[0]?.url ?? "", "/")).status).toBe(502);
    await Promise.all([sandbox.delete(), other.delete()]);
  });
});

/** starts the server and waits until it listens */
async function serve(sandbox: AnySandbox, port: number): Promise<void> {
  const command = await sandbox.runCommand({ cmd: "node", args: ["-e", server, String(port)], detached: true });
  for await (const line of command.logs()) if (line.data.includes("listening")) return;
  throw new Error("The server ended before it listened");
}

/** a request with that host name, which needs no resolver */
async function ask(url: string, path: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(daemon().url);
  const asked = request({ hostname, port, path, headers: { host: new URL(url).host } }).end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, body: await text(answer) };
}
