/** The bodies of requests and answers on their way through, over HTTP/1.1: as they stream, wait, end and break off. */

import { createHash } from "node:crypto";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../test/harness/harness.ts";
import { ask, echo, host, http1Server, open, replyOf, tls } from "../../../test/internet/interception.ts";
import type { RequestRule } from "../../core/network/network-policy.ts";

const inject: RequestRule = { action: { kind: "set-headers", headers: { Authorization: "Bearer s3cr3t" } } };

describe("bodies", () => {
  test("stream both ways, as they come", async () => {
    const { port } = await http1Server((message, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      message.on("data", (chunk) => response.write(chunk));
      message.on("end", () => response.end("end"));
    });
    const door = await open(port, [inject]);
    const socket = await tls(door);
    const sent = request({
      method: "POST",
      path: "/",
      headers: { host },
      setHost: false,
      createConnection: () => socket,
    });
    sent.write("one");
    const response = await new Promise<IncomingMessage>((resolve) => sent.once("response", resolve));
    const chunks = response[Symbol.asyncIterator]();
    expect(String((await chunks.next()).value)).toBe("one");
    sent.write("two");
    expect(String((await chunks.next()).value)).toBe("two");
    sent.end();
    expect(String((await chunks.next()).value)).toBe("end");
  });

  test("of 24 MB arrive whole both ways, and nobody holds more of them than a few blocks", async () => {
    const block = Buffer.alloc(1 << 20, "x");
    const blocks = 24;
    const whole = createHash("sha256");
    for (let i = 0; i < blocks; i++) whole.update(block);
    const expected = whole.digest("hex");
    const { port } = await http1Server((message, response) => {
      const hash = createHash("sha256");
      message.on("data", (chunk) => hash.update(chunk));
      message.on("end", async () => {
        response.setHeader("x-hash", hash.digest("hex"));
        for (let i = 0; i < blocks; i++) {
          if (!response.write(block)) await new Promise((resolve) => response.once("drain", resolve));
        }
        response.end();
      });
    });
    const door = await open(port, [inject]);
    const socket = await tls(door);
    const sent = request({
      method: "PUT",
      path: "/",
      headers: { host },
      setHost: false,
      createConnection: () => socket,
    });
    for (let i = 0; i < blocks; i++) {
      if (!sent.write(block)) await new Promise((resolve) => sent.once("drain", resolve));
    }
    sent.end();
    const response = await new Promise<IncomingMessage>((resolve) => sent.once("response", resolve));
    expect(response.headers["x-hash"]).toBe(expected);
    const hash = createHash("sha256");
    for await (const chunk of response) hash.update(chunk);
    expect(hash.digest("hex")).toBe(expected);
    await eventually("it was seen", () => door.seen.length === 1);
    expect(door.seen[0]).toMatchObject({ sent: blocks << 20, received: blocks << 20 });
  });

  test("wait when the host does not take them", async () => {
    const { port, server } = await http1Server((message) => message.pause());
    const accepted: Socket[] = [];
    server.on("secureConnection", (socket) => accepted.push(socket));
    const socket = await tls(await open(port, [inject]));
    socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${1 << 30}\r\n\r\n`);
    let written = 0;
    const block = Buffer.alloc(1 << 20);
    for (let idle = 0; idle < 20; ) {
      if (socket.writableLength > 0) idle++;
      else {
        socket.write(block);
        written += block.length;
        idle = 0;
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    // What the kernel's buffers of three connections hold, and no more.
    expect(written).toBeLessThan(64 << 20);
  });

  test("bring their trailers along", async () => {
    const { port } = await http1Server((message, response) => {
      message.resume().on("end", () => {
        response.writeHead(200, { trailer: "x-sum" });
        response.write("body");
        response.addTrailers({ "x-sum": message.trailers["x-up"] ?? "none" });
        response.end();
      });
    });
    const door = await open(port, [inject]);
    const socket = await tls(door);
    const sent = request({
      method: "POST",
      path: "/",
      headers: { host, trailer: "x-up" },
      setHost: false,
      createConnection: () => socket,
    });
    sent.write("body");
    sent.addTrailers({ "x-up": "42" });
    sent.end();
    const response = await new Promise<IncomingMessage>((resolve) => sent.once("response", resolve));
    const reply = await replyOf(response);
    expect(reply.trailers).toEqual({ "x-sum": "42" });
    expect(reply.headers.trailer).toBe("x-sum");
  });

  test("that nobody asks for are not sent: Expect goes to the host, and its word comes back", async () => {
    const { port, server } = await echo();
    server.on("checkContinue", (message, response) => {
      if (message.url === "/no") response.writeHead(413).end("too long");
      else {
        response.writeContinue();
        server.emit("request", message, response);
      }
    });
    const door = await open(port, [inject]);
    const expecting = async (path: string) => {
      const socket = await tls(door);
      const headers = { host, expect: "100-continue", "content-length": "4" };
      const sent = request({ method: "PUT", path, headers, setHost: false, createConnection: () => socket });
      sent.flushHeaders();
      let continued = false;
      sent.once("continue", () => {
        continued = true;
        sent.end("body");
      });
      const reply = await replyOf(await new Promise<IncomingMessage>((resolve) => sent.once("response", resolve)));
      sent.on("error", () => undefined).destroy();
      return { ...reply, continued };
    };
    const yes = await expecting("/yes");
    expect(yes).toMatchObject({ status: 200, continued: true });
    expect(JSON.parse(yes.body).body).toBe("body");
    expect(await expecting("/no")).toMatchObject({ status: 413, body: "too long", continued: false });
  });

  test("may be answered before they are sent", async () => {
    const { port } = await http1Server((message, response) => {
      response.writeHead(413, { connection: "close" }).end("enough");
      message.on("error", () => undefined);
    });
    const socket = await tls(await open(port, [inject]));
    socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    const answer = new Promise<string>((resolve) => socket.once("data", (chunk) => resolve(String(chunk))));
    const timer = setInterval(() => socket.write(`${(65536).toString(16)}\r\n${"x".repeat(65536)}\r\n`), 1);
    expect(await answer).toMatch(/^HTTP\/1.1 413 /);
    clearInterval(timer);
  });

  test("that break off do not look whole", async () => {
    const { port } = await http1Server((message, response) => {
      response.writeHead(200, message.url === "/length" ? { "content-length": "10" } : {});
      response.write("half");
      setTimeout(() => response.socket?.destroy(), 20);
    });
    const door = await open(port, [inject]);
    for (const path of ["/length", "/chunked"]) await expect(ask(door, { path })).rejects.toThrow();
    expect(door.seen.every(({ problem }) => problem?.includes("broke off"))).toBe(true);
  });

  test("of a program that goes away are taken back", async () => {
    let [asked, aborted] = [false, false];
    const { port } = await http1Server((message) => {
      asked = true;
      message.on("error", () => undefined);
      message.once("close", () => {
        aborted = !message.complete;
      });
    });
    const door = await open(port, [inject]);
    const socket = await tls(door);
    socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 100\r\n\r\nhalf`);
    await eventually("the host is asked", () => asked);
    socket.destroy();
    await eventually("the host knows", () => aborted);
    await eventually("the door has nothing open", () => door.pending() === 0);
  });

  test("come without a length, until the connection ends", async () => {
    const { port } = await http1Server((_message, response) => {
      response.socket?.end("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
    });
    expect(await ask(await open(port, [inject]))).toMatchObject({ status: 200, body: "until the end" });
  });
});
