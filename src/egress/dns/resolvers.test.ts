/** Asking resolvers that answer, lie, stay silent or are not there; all of them on loopback. */

import { createSocket } from "node:dgram";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { Destination } from "../../protocols/netd-channel.ts";
import { parseResolver, resolve, takeMessage, withLength } from "./resolvers.ts";

const question = Buffer.from("1234010000010000000000000377656204746573740000010001", "hex");
const options = { transport: "udp", patience: 60_000, signal: new AbortController().signal } as const;

test("the answer comes back as it is", async () => {
  const resolver = await udpResolver((packet) => [answerTo(packet, "hello")]);
  expect(await resolve(question, { ...options, resolvers: [resolver] })).toEqual(answerTo(question, "hello"));
});

test("packets that do not answer the question are passed over", async () => {
  const other = Buffer.from(question);
  other.writeUInt16BE(0x9999, 0);
  const resolver = await udpResolver((packet) => [
    answerTo(other, "lie"),
    packet,
    Buffer.alloc(3),
    answerTo(packet, "ok"),
  ]);
  expect(await resolve(question, { ...options, resolvers: [resolver] })).toEqual(answerTo(question, "ok"));
});

test("a resolver that is silent or not there is followed by the next", async () => {
  const silent = await udpResolver(() => []);
  const gone = { address: "127.0.0.1", port: 1 };
  const resolver = await udpResolver((packet) => [answerTo(packet, "second")]);
  // The kernel refuses to connect to the broadcast address, as it does to an IPv6 one where there is no IPv6.
  const unreachable = { address: "255.255.255.255", port: 53 };
  const resolvers = [silent, gone, unreachable, resolver];
  expect(await resolve(question, { ...options, patience: 1_500, resolvers })).toEqual(answerTo(question, "second"));
});

test("a resolver that is silent over UDP is asked over TCP", async () => {
  const resolver = await tcpResolver((packet) => answerTo(packet, "by tcp"));
  expect(await resolve(question, { ...options, resolvers: [resolver] })).toEqual(answerTo(question, "by tcp"));
});

test("a question that came over TCP is asked over TCP only", async () => {
  const resolver = await udpResolver((packet) => [answerTo(packet, "by udp")]);
  expect(await resolve(question, { ...options, transport: "tcp", resolvers: [resolver] })).toBeUndefined();
});

test("nobody is asked what is no question", async () => {
  const asked: Buffer[] = [];
  const resolver = await udpResolver((packet) => {
    asked.push(packet);
    return [answerTo(packet, "x")];
  });
  for (const packet of [Buffer.alloc(0), Buffer.alloc(11), answerTo(question, "an answer")]) {
    expect(await resolve(packet, { ...options, resolvers: [resolver] })).toBeUndefined();
  }
  expect(asked).toEqual([]);
});

test("aborting ends the wait", async () => {
  const silent = await udpResolver(() => []);
  const abort = new AbortController();
  const answer = resolve(question, { ...options, patience: 60_000, resolvers: [silent], signal: abort.signal });
  abort.abort();
  expect(await answer).toBeUndefined();
});

test("resolvers are understood as settings and Node write them", () => {
  expect(parseResolver("1.1.1.1")).toEqual({ address: "1.1.1.1", port: 53 });
  expect(parseResolver("1.1.1.1:5353")).toEqual({ address: "1.1.1.1", port: 5353 });
  expect(parseResolver("2606::1")).toEqual({ address: "2606::1", port: 53 });
  expect(parseResolver("[2606::1]:5353")).toEqual({ address: "2606::1", port: 5353 });
  expect(() => parseResolver("dns.test")).toThrow('Cannot use the resolver "dns.test"');
});

test("messages are cut out of a stream wherever it breaks", () => {
  const stream = Buffer.concat([withLength(Buffer.from("one")), withLength(Buffer.from("")), withLength(question)]);
  const messages: string[] = [];
  let received: Buffer = Buffer.alloc(0);
  for (const byte of stream) {
    received = Buffer.concat([received, Buffer.from([byte])]);
    for (let taken = takeMessage(received); taken; taken = takeMessage(received)) {
      messages.push(taken.message.toString("hex"));
      received = taken.rest;
    }
  }
  expect(messages).toEqual([Buffer.from("one").toString("hex"), "", question.toString("hex")]);
});

function answerTo(packet: Buffer, text: string): Buffer {
  const answer = Buffer.concat([packet, Buffer.from(text)]);
  answer.writeUInt8(0x81, 2);
  return answer;
}

async function udpResolver(answers: (packet: Buffer) => Buffer[]): Promise<Destination> {
  const socket = createSocket("udp4");
  onTestFinished(() => void socket.close());
  socket.on("message", (packet, from) => {
    for (const answer of answers(packet)) socket.send(answer, from.port, from.address);
  });
  await new Promise<void>((done) => socket.bind(0, "127.0.0.1", done));
  return { address: "127.0.0.1", port: socket.address().port };
}

async function tcpResolver(answer: (packet: Buffer) => Buffer): Promise<Destination> {
  const server = createServer((socket) => {
    socket.on("data", (chunk: Buffer) => socket.write(withLength(answer(chunk.subarray(2)))));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  // A server that listens on TCP has an address and a port, which its type does not say.
  return { address: "127.0.0.1", port: (server.address() as AddressInfo).port };
}
