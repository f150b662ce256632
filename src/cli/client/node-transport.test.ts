/** Tests of requests over a plain socket: every form of an answer, cut anywhere, and answers that break off. */

import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { nodeTransport } from "./node-transport.ts";

const get = { method: "GET", headers: {} };

/** the address of a server that sends these parts, each by itself, and then ends the connection or leaves it open */
async function answering(parts: string[], { end = true } = {}): Promise<{ address: URL; received: () => string }> {
  let received = "";
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.setNoDelay().on("error", () => undefined));
    socket.on("data", async (data) => {
      received += data;
      if (!received.includes("\r\n\r\n")) return;
      for (const part of parts) {
        socket.write(part);
        await new Promise(setImmediate);
      }
      if (end) socket.end();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    address: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/a?b=c`),
    received: () => received,
  };
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Some: thing\r\n\r\n";

test.each([
  ["a length", ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"]],
  ["chunks", [`${chunked}2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n`]],
  ["chunks with trailers", [`${chunked}5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n`]],
  ["chunks, each byte by itself", [...`${chunked}5\r\nhello\r\n0\r\n\r\n`]],
  ["the end of the connection", ["HTTP/1.0 200 OK\r\n\r\nhe", "llo"]],
  [
    "an early answer before it",
    ["HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
  ],
])("an answer with %s is read whole", async (_, parts) => {
  const { address } = await answering(parts);
  const answer = await nodeTransport()(address, get);
  expect(answer).toMatchObject({ ok: true, status: 200 });
  expect(await answer.text()).toBe("hello");
});

test("a request says what it asks, and its answer has a status and headers", async () => {
  const { address, received } = await answering([
    "HTTP/1.1 404 Not Found\r\nX-Request-Id: r1\r\nContent-Length: 0\r\n\r\n",
  ]);
  const request = { method: "POST", headers: { authorization: "Bearer sk_x" }, body: "größe" };
  const answer = await nodeTransport()(address, request);
  expect(answer).toMatchObject({ ok: false, status: 404 });
  expect(answer.headers.get("x-Request-ID")).toBe("r1");
  expect(answer.headers.get("x-other")).toBeNull();
  expect(received()).toBe(
    `POST /a?b=c HTTP/1.1\r\nauthorization: Bearer sk_x\r\nhost: ${address.host}\r\nconnection: close\r\ncontent-length: 7\r\n\r\n${Buffer.from("größe")}`,
  );
});

test.each([
  ["before the answer", []],
  ["in the headers", ["HTTP/1.1 200 OK\r\nContent-"]],
  ["in a body with a length", ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"]],
  ["in a chunk", [`${chunked}6\r\nhello`]],
  ["between chunks", [`${chunked}5\r\nhello\r\n`]],
])("a connection that ends %s never looks like a whole answer", async (_, parts) => {
  const { address } = await answering(parts);
  const read = async () => (await nodeTransport()(address, get)).text();
  await expect(read()).rejects.toMatchObject({ code: "ECONNRESET" });
});

test.each([
  ["another protocol", "SSH-2.0-OpenSSH_9.2\r\n"],
  ["a length that is not a number", "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello"],
  ["a chunk without a size", `${chunked}\r\nhello\r\n0\r\n\r\n`],
  ["a chunk that is longer than its size", `${chunked}4\r\nhello\r\n0\r\n\r\n`],
  ["a line without end", `HTTP/1.1 200 OK\r\nA: ${"a".repeat(100_000)}`],
  ["headers without end", `HTTP/1.1 200 OK\r\n${Array.from({ length: 300 }, (_, at) => `a${at}: b\r\n`).join("")}\r\n`],
])("%s is refused", async (_, part) => {
  const { address } = await answering([part]);
  const read = async () => (await nodeTransport()(address, get)).text();
  await expect(read()).rejects.toMatchObject({ code: "EPROTO" });
});

test("a header cannot add a line to the request", async () => {
  const { address, received } = await answering([]);
  const request = { method: "GET", headers: { authorization: "Bearer a\r\nx: y" } };
  await expect(nodeTransport()(address, request)).rejects.toThrow('Cannot send the header "authorization"');
  expect(received()).toBe("");
});

test("an abort ends the request, before and in the answer", async () => {
  const reason = new Error("enough");
  const { address: silent } = await answering([], { end: false });
  const early = new AbortController();
  const asked = nodeTransport()(silent, { ...get, signal: early.signal });
  early.abort(reason);
  await expect(asked).rejects.toBe(reason);
  await expect(nodeTransport()(silent, { ...get, signal: early.signal })).rejects.toBe(reason);
  const { address } = await answering([`${chunked}2\r\nhe\r\n`], { end: false });
  const late = new AbortController();
  const { body } = await nodeTransport()(address, { ...get, signal: late.signal });
  const chunks: string[] = [];
  const read = async () => {
    for await (const chunk of body ?? []) {
      chunks.push(String(chunk));
      late.abort(reason);
    }
  };
  await expect(read()).rejects.toBe(reason);
  expect(chunks).toEqual(["he"]);
});

test("requests after the first share a connection", async () => {
  const ports: (number | undefined)[] = [];
  const server = createHttpServer((request, response) => {
    ports.push(request.socket.remotePort);
    response.end("yes");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  const send = nodeTransport();
  const address = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  for (let count = 0; count < 3; count++) expect(await (await send(address, get)).text()).toBe("yes");
  expect(ports[0]).not.toBe(ports[1]);
  expect(ports[2]).toBe(ports[1]);
});
