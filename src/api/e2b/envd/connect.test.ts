/** Connect's framing: complete, broken, compressed and too long messages, and the answers. */

import { gzipSync } from "node:zlib";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import {
  ConnectError,
  clientStream,
  connectErrorOf,
  envelope,
  longestMessage,
  serverStream,
  unary,
} from "./connect.ts";

const schema = z.object({ text: z.string() });
const logError = () => undefined;
const keepalive = { message: { keepalive: {} }, after: 60_000 };

/** a request whose body arrives in these pieces */
function request(pieces: (string | Uint8Array)[], headers: Record<string, string> = {}): Request {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(typeof piece === "string" ? Buffer.from(piece) : piece);
      controller.close();
    },
  });
  const init = { method: "POST", headers: { "content-type": "application/json", ...headers }, body, duplex: "half" };
  return new Request("http://localhost/s.S/M", init as RequestInit); // Node requires `duplex`, which its types lack
}

const stream = { "content-type": "application/connect+json" };
const echo = async function* ({ text }: { text: string }) {
  yield { text };
};

async function answers(response: Response): Promise<{ flags: number; message: unknown }[]> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at + 1);
    found.push({ flags: bytes.readUInt8(at), message: JSON.parse(bytes.subarray(at + 5, at + 5 + size).toString()) });
    at += 5 + size;
  }
  return found;
}

const said = (code: string, message: unknown = expect.any(String)) => [
  { flags: 2, message: { error: { code, message } } },
];

test("a message is read and answered, also compressed", async () => {
  const message = JSON.stringify({ text: "é", unknown: 1 });
  for (const given of [request([message]), request([gzipSync(message)], { "content-encoding": "gzip" })]) {
    const response = await unary(given, schema, { logError }, async ({ text }) => ({ text }));
    expect([response.status, await response.json()]).toEqual([200, { text: "é" }]);
  }
});

test.each([
  ["that is no JSON", ["{"], {}, 400, "invalid_argument"],
  ["without a member", ["{}"], {}, 400, "invalid_argument"],
  ["that is no UTF-8", [Buffer.from([0x22, 0xff, 0x22])], {}, 400, "invalid_argument"],
  ["that is no gzip", ["{}"], { "content-encoding": "gzip" }, 400, "invalid_argument"],
  ["in an unknown compression", ["{}"], { "content-encoding": "br" }, 501, "unimplemented"],
  ["in another codec", ["{}"], { "content-type": "application/proto" }, 501, "unimplemented"],
  ["that is too long", Array(20).fill(Buffer.alloc(1 << 20, " ")), {}, 429, "resource_exhausted"],
  [
    "that inflates to too much",
    [gzipSync(Buffer.alloc(longestMessage + 1))],
    { "content-encoding": "gzip" },
    429,
    "resource_exhausted",
  ],
])("a message %s is refused", async (_, pieces, headers, status, code) => {
  const response = await unary(
    request(pieces, headers as Record<string, string>),
    schema,
    { logError },
    async () => ({}),
  );
  expect([response.status, await response.json()]).toEqual([status, { code, message: expect.any(String) }]);
});

test("a stream begins with one message, however it is split, and ends with an end envelope", async () => {
  const whole = Buffer.from(envelope({ text: "hi" }));
  const bytes = [...whole].map((byte) => Buffer.from([byte]));
  for (const pieces of [[whole], bytes, [whole.subarray(0, 3), whole.subarray(3)]]) {
    const given = request(pieces, stream);
    expect(await answers(await serverStream(given, { schema, keepalive, logError, messages: echo }))).toEqual([
      { flags: 0, message: { text: "hi" } },
      { flags: 2, message: {} },
    ]);
  }
});

test("an answer begins only when its request is complete", async () => {
  let finish = () => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(envelope({ text: "hi" }));
      finish = () => controller.close();
    },
  });
  const given = new Request("http://127.0.0.1/", { method: "POST", headers: stream, body, duplex: "half" });
  const begun = vi.fn();
  const response = Promise.resolve(serverStream(given, { schema, keepalive, logError, messages: echo }));
  const read = response.finally(begun);
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).not.toHaveBeenCalled();
  finish();
  expect(await answers(await read)).toHaveLength(2);
});

test("an envelope may be compressed", async () => {
  const packed = gzipSync(JSON.stringify({ text: "packed" }));
  const head = Buffer.from([1, 0, 0, 0, packed.length]);
  const given = request([head, packed], { ...stream, "connect-content-encoding": "gzip" });
  const [first] = await answers(await serverStream(given, { schema, keepalive, logError, messages: echo }));
  expect(first?.message).toEqual({ text: "packed" });
});

test.each([
  ["without a message", [], "invalid_argument"],
  ["with two messages", [envelope({ text: "a" }), envelope({ text: "b" })], "invalid_argument"],
  ["that ends in a head", [Buffer.from([0, 0, 0])], "invalid_argument"],
  ["that ends in a message", [Buffer.from([0, 0, 0, 0, 9, 1])], "invalid_argument"],
  ["with a message of 4 GB", [Buffer.from([0, 255, 255, 255, 255])], "resource_exhausted"],
  ["compressed in no known way", [Buffer.from([1, 0, 0, 0, 1, 1])], "unimplemented"],
  ["with a message that is no JSON", [Buffer.from([0, 0, 0, 0, 1, 0x7b])], "invalid_argument"],
])("a stream %s ends with an error, and the status stays 200", async (_, pieces, code) => {
  const response = await serverStream(request(pieces, stream), { schema, keepalive, logError, messages: echo });
  expect(response.status).toBe(200);
  expect(await answers(response)).toEqual(said(code));
});

test("a stream that fails sends the messages before the failure, and the reason", async () => {
  const messages = async function* () {
    yield { text: "first" };
    throw new SandkeepError("not-found", "There is no such thing");
  };
  const given = request([envelope({ text: "x" })], stream);
  expect(await answers(await serverStream(given, { schema, keepalive, logError, messages }))).toEqual([
    { flags: 0, message: { text: "first" } },
    ...said("not_found", "There is no such thing"),
  ]);
});

test("a silent stream is kept alive", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const messages = async function* () {
    await promise;
    yield { text: "late" };
  };
  const given = request([envelope({ text: "x" })], stream);
  const patient = { ...keepalive, after: 5 };
  const { body } = await serverStream(given, { schema, keepalive: patient, logError, messages });
  const reader = body?.getReader();
  const first = await reader?.read();
  expect(
    Buffer.from(first?.value ?? [])
      .subarray(5)
      .toString(),
  ).toBe('{"keepalive":{}}');
  resolve();
  await reader?.cancel();
});

test("a stream ends when the daemon stops, with an error that tells its client to retry", async () => {
  const ending = new AbortController();
  const messages = async function* (_: unknown, signal: AbortSignal) {
    yield { text: "first" };
    ending.abort();
    await new Promise((resolve) => (signal.aborted ? resolve(undefined) : signal.addEventListener("abort", resolve)));
  };
  const given = request([envelope({ text: "x" })], stream);
  const told = await answers(
    await serverStream(given, { schema, keepalive, logError, ending: ending.signal, messages }),
  );
  expect(told.slice(1)).toEqual(said("unavailable"));
});

test("many messages get one answer", async () => {
  const given = request([envelope({ text: "a" }), envelope({ text: "b" })], stream);
  const response = await clientStream(given, schema, { logError }, async (received) => {
    const texts: string[] = [];
    for await (const { text } of received) texts.push(text);
    return { texts };
  });
  expect(await answers(response)).toEqual([
    { flags: 0, message: { texts: ["a", "b"] } },
    { flags: 2, message: {} },
  ]);
});

test("an internal error is reported and its message hidden", () => {
  expect(connectErrorOf(new Error("secret"))).toMatchObject({
    code: "internal",
    message: "An internal error occurred",
  });
  expect(connectErrorOf(new SandkeepError("internal", "secret"))).toMatchObject({
    message: "An internal error occurred",
  });
  const about = { kind: "user" } as const;
  expect(connectErrorOf(new SandkeepError("invalid", "no user", { about }))).toMatchObject({ code: "unauthenticated" });
  expect(connectErrorOf(new ConnectError("not_found", "x"))).toMatchObject({ code: "not_found" });
});
