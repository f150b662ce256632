/** The HTTP functions that dialects share: bounded bodies, live streams, ASCII lines. */

import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { ServedRequest } from "./connection/served-request.ts";
import { asciiJson, bodyText, byteBody, jsonOf } from "./http.ts";
import { liveBody } from "./live-body.ts";

function post(body: Uint8Array<ArrayBuffer>): Request {
  return new Request("http://localhost/", { method: "POST", body });
}

describe("bodies", () => {
  test("a body longer than its bound is refused without being read to its end", async () => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled++;
        controller.enqueue(new Uint8Array(1000));
      },
    });
    const request = new Request("http://localhost/", { method: "POST", body: endless, duplex: "half" });
    await expect(bodyText(request, 10_000)).rejects.toMatchObject({ code: "invalid" });
    expect(pulled).toBeLessThan(20);
  });

  test("a body from Node's server is read in pieces, and refused if it is too long or breaks off", async () => {
    const from = (source: Readable) => {
      const { headers, rawHeaders, socket } = new IncomingMessage(new Socket());
      const incoming = Object.assign(source, { method: "POST", url: "/", headers, rawHeaders, socket });
      return bodyText(ServedRequest.of(incoming as unknown as IncomingMessage), 10);
    };
    const euro = Buffer.from("€");
    expect(await from(Readable.from([Buffer.from("a"), euro.subarray(0, 1), euro.subarray(1)]))).toBe("a€");
    expect(await from(Readable.from([]))).toBe("");
    const read = Readable.from([Buffer.from("once")]);
    expect([await from(read), await from(read)]).toEqual(["once", ""]);

    const endless = new PassThrough();
    for (let chunk = 0; chunk < 3; chunk++) endless.write(Buffer.alloc(6));
    await expect(from(endless)).rejects.toThrow("the body is longer than 10 bytes");
    expect([endless.destroyed, endless.isPaused(), endless.readableLength]).toEqual([false, true, 6]);

    const cut = new PassThrough();
    const reading = from(cut);
    cut.write("a");
    cut.destroy();
    await expect(reading).rejects.toThrow("the body ended too soon");
    await expect(from(cut)).rejects.toThrow("the body ended too soon");
  });

  test("a body that is not UTF-8 is refused", async () => {
    await expect(bodyText(post(new Uint8Array([0xff, 0xfe, 0x41])), 100)).rejects.toMatchObject({ code: "invalid" });
  });

  test("no body is an empty object, and anything but JSON is refused", () => {
    expect(jsonOf("")).toEqual({});
    expect(jsonOf(" \n")).toEqual({});
    expect(() => jsonOf("{")).toThrow("not JSON");
    expect(() => jsonOf(`{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`)).toThrow("nested");
    expect(jsonOf(`["${"[".repeat(1000)}\\"", ${"[],".repeat(1000)} 1]`)).toHaveLength(1002);
  });

  test("so many values that their check would take seconds are refused; commas in strings are none", () => {
    const members = (count: number) => Array.from({ length: count }, (_, n) => `"${n}":1`).join(",");
    expect(() => jsonOf(`{"tags":{${members(20_001)}}}`)).toThrow("the JSON has more than 20000 values");
    expect(jsonOf(`{${members(20_000)}}`)).toMatchObject({ 0: 1, 19999: 1 });
    expect(jsonOf(JSON.stringify([",".repeat(100_000), '\\",']))).toHaveLength(2);
  });

  test.each(['{"a":["\\u0000"]}', '{"a":{"\\u0000":1}}', '"\\ud800"', '["a\\uDC00"]'])("%s is refused", (text) => {
    expect(() => jsonOf(text)).toThrow("NUL or half a character");
  });

  test("an escaped pair is a character, and a backslash before u0000 is text", () => {
    expect(jsonOf('["\\ud83d\\ude00", "\\\\u0000"]')).toEqual(["😀", "\\u0000"]);
  });
});

describe("ASCII lines", () => {
  test("every character beyond ASCII is escaped and decodes to itself", () => {
    const text = "€ 😀 \u2028 \u0080 \ud800";
    const line = asciiJson({ text });
    expect(line).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(line)).toEqual({ text });
  });
});

describe("live bodies", () => {
  test("silence is filled, and the text follows when it is ready", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const body = liveBody({
      filler: " ",
      patience: 5,
      async *pieces() {
        yield await promise;
      },
    });
    const reader = body.getReader();
    const first = await reader.read();
    expect(Buffer.from(first.value ?? []).toString()).toBe(" ");
    resolve("done");
    let rest = "";
    for (let read = await reader.read(); !read.done; read = await reader.read()) rest += Buffer.from(read.value);
    expect(rest.trim()).toBe("done");
  });

  test("a client that disconnects aborts the signal, even if the next piece never comes", async () => {
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    const body = liveBody({
      filler: "\n",
      patience: 60_000,
      async *pieces(signal) {
        signal.addEventListener("abort", () => resolve());
        yield "first";
        await new Promise(() => undefined);
      },
    });
    const reader = body.getReader();
    await reader.read();
    await reader.cancel();
    await aborted;
  });

  test("pieces are not produced faster than they are read", async () => {
    let produced = 0;
    const body = liveBody({
      filler: "\n",
      patience: 60_000,
      async *pieces() {
        for (;;) {
          produced++;
          yield "x".repeat(64 << 10);
        }
      },
    });
    const reader = body.getReader();
    for (let i = 0; i < 5; i++) await reader.read();
    await new Promise((resolve) => setImmediate(resolve));
    expect(produced).toBeLessThan(10);
    await reader.cancel();
  });

  test("bytes are read only when needed, and a client that disconnects releases their source", async () => {
    let [asked, returned] = [0, false];
    const iterator: AsyncIterator<Uint8Array> = {
      async next() {
        asked++;
        return { done: false, value: new Uint8Array(128 << 10) };
      },
      async return() {
        returned = true;
        return { done: true, value: undefined };
      },
    };
    const reader = byteBody({ bytes: iterator, logError: () => undefined }).getReader();
    await reader.read();
    await reader.cancel();
    expect(asked).toBeLessThan(4);
    expect(returned).toBe(true);
  });

  test("a client that takes nothing for too long is given up, and one that takes is not", async () => {
    const { promise: returned, resolve } = Promise.withResolvers<void>();
    const bytes: AsyncIterator<Uint8Array> = {
      next: async () => ({ done: false, value: new Uint8Array(128 << 10) }),
      async return() {
        resolve();
        return { done: true, value: undefined };
      },
    };
    let cut = 0;
    const connection = { outgoing: { destroy: () => cut++ } };
    const reader = byteBody({ bytes, logError: () => undefined, connection, patience: 50 }).getReader();
    for (let count = 0; count < 5; count++) expect((await reader.read()).done).toBe(false);
    expect(cut).toBe(0);
    await returned;
    expect(cut).toBe(1);
    await expect(reader.read()).rejects.toThrow("took nothing");
  });

  test("a client that goes away while bytes are waited for is no error, whether they come or break off", async () => {
    for (const breaks of [false, true]) {
      const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Uint8Array>>();
      const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
      const bytes: AsyncIterator<Uint8Array> = {
        next() {
          ask();
          return promise;
        },
      };
      const logged: unknown[] = [];
      const reader = byteBody({ bytes, logError: (error) => logged.push(error) }).getReader();
      const read = reader.read();
      await asked;
      await reader.cancel();
      if (breaks) reject(new Error("The machine has stopped"));
      else resolve({ done: false, value: new Uint8Array(1) });
      expect(await read).toEqual({ done: true, value: undefined });
      await new Promise((settled) => setImmediate(settled));
      expect(logged).toEqual([]);
    }
  });
});
