/** Servers that send informational answers (1xx) without end before their answer, or instead of it. */

import { createServer as createTls, type TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import {
  all,
  type Door,
  host,
  http2,
  http2Server,
  listening,
  open,
  tls,
  world,
} from "../../../test/internet/interception.ts";
import { mostInformational } from "../../base/informational-answers.ts";
import type { RequestRule } from "../../core/network/network-policy.ts";
import { newTurns } from "../fairness/turns.ts";

const inject: RequestRule = { action: { kind: "set-headers", headers: { a: "b" } } };
const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const problem =
  'Cannot pass on the answer of "api.test": more than 16 informational answers (1xx), or 64 KiB of them, came before it';

interface Flood {
  port: number;
  /** connections that are still open */
  open(): number;
}

const programs = { "HTTP/1.1": ask1, "HTTP/2": ask2 };
const versions = ["HTTP/1.1", "HTTP/2"] as const;

describe.each([
  ["HTTP/1.1", "HTTP/1.1", flood1, ask1],
  ["HTTP/1.1", "HTTP/2", flood1, ask2],
  ["HTTP/2", "HTTP/2", flood2, ask2],
])("a server of %s that floods a program of %s", (_server, _program, flooding, ask) => {
  test("is disconnected, and both learn why", async () => {
    const flood = await flooding();
    const door = await open(flood.port, [inject]);
    expect(await ask(door)).toEqual({ hints: mostInformational, status: 502, body: `${problem}\n` });
    await eventually("the server is left", () => flood.open() === 0);
    await eventually("it is in the log", () => door.seen.length === 1);
    expect(door.seen).toMatchObject([{ status: 502, problem }]);
  });

  test("is paid for by the program's machine", async () => {
    const share = newTurns(() => performance.now()).share();
    let spent = 0;
    const spend = share.spend.bind(share);
    share.spend = (cost) => {
      spent += cost;
      return spend(cost);
    };
    await ask(await open((await flooding()).port, [inject], { share }));
    expect(spent).toBeGreaterThan(mostInformational * 40);
  });
});

test.each(versions)("as many as the limit reach a program of %s", async (program) => {
  const door = await open(await saying(hint.repeat(mostInformational) + ok), [inject]);
  expect(await programs[program](door)).toEqual({ hints: mostInformational, status: 200, body: "ok" });
});

test.each([
  ["too many", hint.repeat(mostInformational + 1) + ok],
  ["too long", `HTTP/1.1 103 Early Hints\r\nLink: ${"x".repeat(14_000)}\r\n\r\n`.repeat(5) + ok],
])("an answer that comes together with hints that are %s is not passed on", async (_, text) => {
  const door = await open(await saying(text), [inject]);
  expect(await ask1(door)).toMatchObject({ status: 502, body: `${problem}\n` });
  await eventually("it is in the log", () => door.seen.length === 1);
  expect(door.seen).toMatchObject([{ status: 502, problem }]);
});

test("a request for another protocol ends in the same way", async () => {
  const flood = await flood1();
  const door = await open(flood.port, [inject]);
  const socket = await tls(door);
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  const text = await all(socket);
  expect(text).toMatch(/^HTTP\/1\.1 502 /);
  expect(text).toContain(problem);
  await eventually("the server is left", () => flood.open() === 0);
});

test("hints that a program of HTTP/2 has no time to read do not queue without end, and its answers still come", async () => {
  // Longer than what HPACK remembers, so that each is sent whole.
  const long = "x".repeat(5_000);
  const requests = 90;
  const each = 12;
  const { port, server } = await http2Server();
  server.on("stream", (stream) => {
    for (let i = 0; i < each; i++) stream.additionalHeaders({ ":status": 103, link: long });
    stream.respond({ ":status": 200 }, { endStream: true });
  });
  const session = await http2(await open(port, [inject]));
  let hints = 0;
  let answers = 0;
  for (let i = 0; i < requests; i++) {
    const stream = session.request({ ":path": "/" });
    stream.on("error", () => undefined).on("headers", () => hints++);
    stream.once("response", () => answers++).resume();
  }
  await eventually("all are answered", () => answers === requests);
  expect(hints).toBeLessThan(requests * each);
});

/** a server that sends hints for as long as it is connected */
async function flood1(): Promise<Flood> {
  let connections = 0;
  const block = hint.repeat(100);
  const port = await serving((socket) => {
    connections++;
    socket.once("close", () => connections--);
    socket.once("data", () => {
      const more = () => {
        while (!socket.destroyed && socket.write(block)) {}
      };
      socket.on("drain", more);
      more();
    });
  });
  return { port, open: () => connections };
}

async function flood2(): Promise<Flood> {
  const { port, server } = await http2Server();
  let connections = 0;
  server.on("session", (session) => {
    connections++;
    session.once("close", () => connections--);
  });
  server.on("stream", (stream) => {
    const more = () => {
      if (stream.destroyed || stream.closed) return;
      for (let i = 0; i < 100; i++) stream.additionalHeaders({ ":status": 103, link: "</a>" });
      setImmediate(more);
    };
    more();
  });
  return { port, open: () => connections };
}

/** a server that says these bytes to each request */
function saying(text: string): Promise<number> {
  return serving((socket) => void socket.once("data", () => socket.end(text)));
}

function serving(serve: (socket: TLSSocket) => void): Promise<number> {
  const server = createTls({ SNICallback: (name, done) => done(null, world.leafFor(name)) }, (socket) => {
    socket.on("error", () => socket.destroy());
    serve(socket);
  });
  return listening(server);
}

interface Reply {
  hints: number;
  status: number | undefined;
  body: string | undefined;
}

async function ask1(door: Door): Promise<Reply> {
  const socket = await tls(door);
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  const text = await all(socket);
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
  return {
    hints: statuses.filter((status) => status === 103).length,
    status: statuses.at(-1),
    body: text.split("\r\n\r\n").at(-1),
  };
}

async function ask2(door: Door): Promise<Reply> {
  const stream = (await http2(door)).request({ ":path": "/" });
  const reply: Reply = { hints: 0, status: undefined, body: "" };
  stream.on("error", () => undefined);
  stream.on("headers", () => reply.hints++);
  stream.once("response", (headers) => {
    reply.status = headers[":status"];
  });
  stream.on("data", (chunk: Buffer) => {
    reply.body += chunk.toString();
  });
  await new Promise((resolve) => stream.once("close", resolve));
  return reply;
}
