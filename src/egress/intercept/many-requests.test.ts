/** More requests at once than one machine may have under way: all are answered, in their order, and a neighbour's meanwhile. */

import { type ClientHttp2Session, type ClientHttp2Stream, constants, type ServerHttp2Stream } from "node:http2";
import { expect, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import { type Door, host, http2, http2Server, open } from "../../../test/internet/interception.ts";
import type { RequestRule } from "../../core/network/network-policy.ts";
import { newAllowance } from "../fairness/allowance.ts";
import type { Watched } from "../fairness/load-watch.ts";
import { mostRequests, newTurns, type Turns } from "../fairness/turns.ts";

const inject: RequestRule = { action: { kind: "set-headers", headers: { "x-key": "secret" } } };
const perSession = 100;
const wanted = 400;

test("no more than the limit are passed on, the others in order of arrival, and all get their answers", async () => {
  const server = await holding();
  const turns = newTurns(() => performance.now());
  const door = await doorTo(server.port, turns);
  const sessions = await sessionsTo(door);
  const answers = await askAll(sessions, server);
  await expectAnswer(await doorTo(server.port, turns), server, "neighbour");
  expect(server.most()).toBe(mostRequests + 1);

  await answerAll(server);
  expect(await Promise.all(answers)).toEqual(answers.map((_, i) => String(i)));
  // Each session has a connection to the server, and what comes first over two of them is anybody's guess.
  for (let at = 0; at < sessions.length; at++) {
    const own = server.order.map(Number).filter((number) => Math.floor(number / perSession) === at);
    expect(own).toEqual(own.toSorted((one, other) => one - other));
  }
  expect(server.most()).toBe(mostRequests + 1);
});

test("requests that their program takes back are not passed on any more, and leave their places to others", async () => {
  const server = await holding();
  const door = await doorTo(server.port);
  const sessions = await sessionsTo(door);
  const streams: ClientHttp2Stream[] = [];
  const answers = await askAll(sessions, server, streams);
  // Those that wait first: otherwise some would move up.
  for (const session of sessions.toReversed()) {
    const own = streams.filter((stream) => stream.session === session);
    for (const stream of own.toReversed()) stream.close(constants.NGHTTP2_CANCEL);
    await new Promise((resolve) => session.ping(resolve));
  }
  await Promise.allSettled(answers);
  await eventually("nothing of them is left", () => server.held.size === 0);
  await expectAnswer(door, server, "late");
  expect(server.order).toHaveLength(mostRequests + 1);
});

test("requests of a program that has gone do not wait for their answers, and leave their places to others", async () => {
  const server = await holding();
  const door = await doorTo(server.port);
  const sessions = await sessionsTo(door);
  const answers = await askAll(sessions, server);
  for (const session of sessions) session.destroy();
  await Promise.allSettled(answers);
  await eventually("nothing of them is left", () => door.pending() === 0 && server.held.size === 0);
  await expectAnswer(door, server, "late");
});

test("a body that ends without a byte while its request waits is passed on as one", async () => {
  const server = await holding();
  const door = await doorTo(server.port);
  const answers = await askAll(await sessionsTo(door), server);
  const session = await http2(door);
  const stream = session.request({ ":method": "POST", ":path": "/empty", ":authority": host }, { endStream: false });
  stream.end();
  const answer = stream.toArray().then((chunks) => Buffer.concat(chunks).toString());
  await new Promise((resolve) => session.ping(resolve));
  await answerAll(server);
  await Promise.all(answers);
  await eventually("it is passed on whole", () => server.held.get("empty")?.readableEnded);
  server.answer("empty");
  expect(await answer).toBe("empty");
});

test("a machine that has ended leaves nothing waiting", async () => {
  const server = await holding();
  const share = newTurns(() => performance.now()).share();
  const door = await open(server.port, [inject], { share });
  const answers = await askAll(await sessionsTo(door), server);
  door.abort();
  share.end();
  await Promise.allSettled(answers);
  await eventually("nothing of it is left", () => door.pending() === 0 && server.held.size === 0);
  expect(server.order).toHaveLength(mostRequests);
});

test("a program that takes back more requests than its machine may is cut off, and can come again", async () => {
  const server = await holding();
  const costlyFrames = newAllowance({ atOnce: perSession / 2, perSecond: 0, now: () => 0 });
  const door = await open(server.port, [inject], { costlyFrames });
  const session = await http2(door);
  const cut = new Promise((resolve) => session.once("close", () => resolve("cut off")));
  const streams: ClientHttp2Stream[] = [];
  const answers = Array.from({ length: perSession }, (_, i) => ask(session, String(i), streams));
  await eventually("all are passed on", () => server.order.length === perSession);
  for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL);
  await Promise.allSettled(answers);
  expect(await cut).toBe("cut off");
  await expectAnswer(door, server, "again");
});

test("a connection that is held is not read, and goes on where it was when it is released", async () => {
  const server = await holding();
  const watched: Watched[] = [];
  const share = newTurns(() => performance.now()).share();
  const watch = (one: Watched) => {
    watched.push(one);
    return () => undefined;
  };
  const door = await open(server.port, [inject], { share: Object.assign(share, { watch }) });
  const [held, free] = [await http2(door), await http2(door)];
  for (const session of [held, free]) await new Promise((resolve) => session.ping(resolve));
  watched[0]?.hold();
  const before = watched[0]?.bytes();
  const answers = [ask(held, "held"), ask(free, "free")];
  await eventually("the other one is passed on", () => server.held.has("free"));
  // Whatever the first one has said has arrived before.
  await new Promise((resolve) => free.ping(resolve));
  expect([server.order, watched[0]?.bytes()]).toEqual([["free"], before]);
  watched[0]?.release();
  await eventually("the first one is passed on", () => server.held.has("held"));
  for (const path of ["held", "free"]) server.answer(path);
  expect(await Promise.all(answers)).toEqual(["held", "free"]);
});

function doorTo(port: number, turns: Turns = newTurns(() => performance.now())): Promise<Door> {
  return open(port, [inject], { share: turns.share() });
}

function sessionsTo(door: Door): Promise<ClientHttp2Session[]> {
  return Promise.all(Array.from({ length: wanted / perSession }, () => http2(door)));
}

/** as many as the limit allows have been passed on when it resolves; each is asked for when the last has arrived */
async function askAll(
  sessions: ClientHttp2Session[],
  server: Holding,
  streams: ClientHttp2Stream[] = [],
): Promise<Promise<string>[]> {
  const answers: Promise<string>[] = [];
  for (const [at, session] of sessions.entries()) {
    for (let i = 0; i < perSession; i++) answers.push(ask(session, String(at * perSession + i), streams));
    for (const answer of answers) answer.catch(() => undefined);
    const passed = Math.min(answers.length, mostRequests);
    await eventually(`${passed} are passed on`, () => server.order.length === passed);
    // What waits has arrived when something that was said after it is answered.
    await new Promise((resolve) => session.ping(resolve));
  }
  return answers;
}

function ask(session: ClientHttp2Session, path: string, streams: ClientHttp2Stream[] = []): Promise<string> {
  const stream = session.request({ ":path": `/${path}`, ":authority": host });
  streams.push(stream);
  return stream.toArray().then((chunks) => Buffer.concat(chunks).toString());
}

/** one more request is passed on and gets its answer */
async function expectAnswer(door: Door, server: Holding, path: string): Promise<void> {
  const answer = ask(await http2(door), path);
  await eventually(`"${path}" is passed on`, () => server.held.has(path));
  server.answer(path);
  expect(await answer).toBe(path);
}

/** answers each request once it has arrived */
async function answerAll(server: Holding): Promise<void> {
  for (let i = 0; i < wanted; i++) {
    await eventually(`request ${i} is passed on`, () => server.held.has(String(i)));
    server.answer(String(i));
  }
}

type Holding = Awaited<ReturnType<typeof holding>>;

/** a server that answers a request, with its path, when it is told to */
async function holding() {
  const { server, port } = await http2Server();
  const held = new Map<string, ServerHttp2Stream>();
  const order: string[] = [];
  let most = 0;
  server.on("stream", (stream, headers) => {
    const path = headers[":path"]?.slice(1) ?? "";
    order.push(path);
    held.set(path, stream.resume());
    most = Math.max(most, held.size);
    stream.once("close", () => held.delete(path));
  });
  const answer = (path: string) => {
    const stream = held.get(path);
    held.delete(path);
    stream?.respond({ ":status": 200 });
    stream?.end(path);
  };
  return { port, held, order, most: () => most, answer };
}
