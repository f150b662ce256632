/**
 * Hosts and programs that say what makes libraries throw, or what two of them would read in two ways. Whoever says it is
 * told or cut off; an error that nobody catches would end the process for all sandboxes, and Vitest fails for it.
 */

import type { ClientHttp2Stream } from "node:http2";
import { createServer as createTls } from "node:tls";
import { describe, expect, test } from "vitest";
import { frame } from "../../../test/harness/network/http2-frame.ts";
import {
  all,
  host,
  http1Server,
  http2,
  http2Server,
  listening,
  open,
  tls,
  world,
} from "../../../test/internet/interception.ts";
import type { RequestRule } from "../../core/network/network-policy.ts";

const inject: RequestRule = { action: { kind: "set-headers", headers: { Authorization: "Bearer s3cr3t" } } };
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

describe("a host", () => {
  test.each([
    ["changes the protocol unasked", `HTTP/1.1 101 What\r\n\r\n${ok}`, 502, 502],
    ["hints at one thing twice", `HTTP/1.1 103 Hints\r\nEtag: a\r\nEtag: b\r\n\r\n${ok}`, 200, 200],
    ["hints in what is no text", `HTTP/1.1 103 Hints\r\nLink: \xff\xfe\r\n\r\n${ok}`, 200, 200],
    ["ends with one thing twice", chunked("Etag: a\r\nEtag: b\r\n"), 200, 200],
    ["ends with what belongs elsewhere", chunked("Content-Length: 4\r\nHost: a\r\nConnection: x\r\n"), 200, 200],
    ["has no sensible status", "HTTP/1.1 000 Ha\r\nContent-Length: 2\r\n\r\nok", 502, 200],
    ["says one thing twice", `HTTP/1.1 200 OK\r\nEtag: a\r\nEtag: b\r\nContent-Length: 2\r\n\r\nok`, 200, 502],
  ])("that %s ends no process", async (_, text, first, second) => {
    const door = await open(await saying(text), [inject]);
    const socket = await tls(door);
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nTE: trailers\r\nConnection: close\r\n\r\n`);
    expect([...(await all(socket)).matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)).at(-1)).toBe(
      first,
    );
    expect(await statusOf((await http2(door)).request({ ":path": "/", te: "trailers" }))).toBe(second);
  });
});

describe("a program of HTTP/2", () => {
  const body = Buffer.from("body");
  const line = { ":method": "POST", ":scheme": "https", ":path": "/", ":authority": host };

  test("that ends with one thing twice ends no process, whatever the host speaks", async () => {
    const twice = [
      headers(line, false),
      frame(0, 0, 1, body),
      frame(1, 5, 1, Buffer.concat([field("etag", "a"), field("etag", "b")])),
    ];
    expect(await heardBy("http1", twice)).toEqual(["POST / authorization transfer-encoding"]);
    expect(await heardBy("http2", twice)).toEqual(["POST / authorization"]);
  });

  test.each([
    ["a length without a body", [headers({ ...line, "content-length": "5" }, true)]],
    ["more than its length", [headers({ ...line, "content-length": "2" }, false), frame(0, 1, 1, body)]],
    ["less than its length", [headers({ ...line, "content-length": "9" }, false), frame(0, 1, 1, body)]],
    ["a length that is no number", [headers({ ...line, "content-length": "+4" }, false), frame(0, 1, 1, body)]],
    ["chunks", [headers({ ...line, "transfer-encoding": "chunked" }, false), frame(0, 1, 1, body)]],
    ["a second line in its path", [headers({ ...line, ":path": "/ HTTP/1.1\r\nX: y" }, true)]],
    ["a line for a method", [headers({ ...line, ":method": "GET /a HTTP/1.1\r\n" }, true)]],
    ["a line after its host", [headers({ ...line, ":authority": `${host}\r\nX: y` }, true)]],
    ["a name before its host", [headers({ ...line, ":authority": `a@${host}` }, true)]],
    ["another host beside it", [headers({ ...line, host: "evil.test" }, true)]],
    ["a tunnel", [headers({ ":method": "CONNECT", ":authority": `${host}:443` }, false)]],
  ])("with %s is not passed on", async (_, frames) => {
    expect(await heardBy("http1", frames)).toEqual([]);
  });
});

test("a rule's value that cannot be sent is told to whoever asks for another protocol", async () => {
  const bad: RequestRule = { action: { kind: "set-headers", headers: { "X-Key": "s3cr3t€" } } };
  const socket = await tls(await open(await saying(ok), [bad]));
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  const response = await all(socket);
  expect(response).toContain("HTTP/1.1 502");
  expect(response).not.toContain("s3cr3t");
});

/** a host that answers every request with these bytes, and goes */
function saying(text: string): Promise<number> {
  const server = createTls({ SNICallback: (name, done) => done(null, world.leafFor(name)) }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", () => socket.end(Buffer.from(text, "latin1")));
  });
  return listening(server);
}

function chunked(trailers: string): string {
  return `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`;
}

/** settles when the stream is over, with its status if it got one */
function statusOf(stream: ClientHttp2Stream): Promise<number | undefined> {
  let status: number | undefined;
  stream.on("error", () => undefined);
  stream.once("response", (head) => {
    status = head[":status"];
  });
  stream.resume();
  return new Promise((resolve) => stream.once("close", () => resolve(status)));
}

/** what a host hears of a program that sends these frames, by when the program has its answer */
async function heardBy(kind: "http1" | "http2", frames: Buffer[]): Promise<string[]> {
  const received: string[] = [];
  const note = (method?: string, path?: string, names: string[] = []) =>
    received.push([method, path, ...names.filter((name) => !/^:|^host$|^connection$/.test(name)).sort()].join(" "));
  const { port, server } =
    kind === "http2"
      ? await http2Server()
      : await http1Server((message, response) => {
          note(message.method, message.url, Object.keys(message.headers));
          message.resume().once("end", () => response.end());
        });
  server.on("stream", (stream, head) => {
    note(head[":method"], head[":path"], Object.keys(head));
    stream.resume();
  });
  const socket = await tls(await open(port, [inject]), { ALPNProtocols: ["h2"] });
  const hello = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(Buffer.concat([hello, frame(4, 0, 0, Buffer.alloc(0)), ...frames]));
  await answered(socket);
  return received;
}

/** resolves with the first frame that is about the request, or ends the connection: HEADERS, RST_STREAM, GOAWAY */
function answered(socket: NodeJS.ReadableStream): Promise<void> {
  let received = Buffer.alloc(0);
  return new Promise((resolve) => {
    socket.once("close", resolve).on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
        if ([1, 3, 7].includes(received.readUInt8(at + 3))) resolve();
      }
    });
  });
}

/** the headers of stream 1, none of them compressed */
function headers(pairs: Record<string, string>, ends: boolean): Buffer {
  const fields = Object.entries(pairs).map(([name, value]) => field(name, value));
  return frame(1, ends ? 5 : 4, 1, Buffer.concat(fields));
}

function field(name: string, value: string): Buffer {
  const text = (each: string) => [Buffer.of(each.length), Buffer.from(each, "latin1")];
  return Buffer.concat([Buffer.of(0x10), ...text(name), ...text(value)]);
}
