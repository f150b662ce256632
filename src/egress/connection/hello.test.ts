/** Hellos as clients send them, cut anywhere, and hellos that no client sends. */

import { once } from "node:events";
import { createServer } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { expect, test } from "vitest";
import { readHello } from "./hello.ts";

test.each<[string, ConnectionOptions, string | undefined]>([
  ["a name", { servername: "Api.Example.com" }, "api.example.com"],
  ["no name", {}, undefined],
  ["TLS 1.2", { servername: "a.test", maxVersion: "TLSv1.2" }, "a.test"],
  ["many protocols", { servername: "a.test", ALPNProtocols: Array.from({ length: 200 }, (_, i) => `p${i}`) }, "a.test"],
])("a client with %s", async (_, options, name) => {
  expect(readHello(await helloOf(options))).toEqual({ state: "complete", ...(name !== undefined && { name }) });
});

test("every beginning of a hello needs more, and says how much at least", async () => {
  const hello = await helloOf({ servername: "a.test" });
  for (const bytes of [hello, inRecords(hello, 40)]) {
    for (let length = 0; length < bytes.length; length++) {
      const read = readHello(bytes.subarray(0, length));
      if (read.state !== "partial") throw new Error(`${length} of ${bytes.length} bytes were taken for ${read.state}`);
      expect(read.needed).toBeGreaterThan(length);
      expect(read.needed).toBeLessThanOrEqual(bytes.length);
    }
    expect(readHello(bytes)).toEqual({ state: "complete", name: "a.test" });
    expect(readHello(Buffer.concat([bytes, Buffer.from("more")]))).toEqual({ state: "complete", name: "a.test" });
  }
});

test("unknown extensions and values (GREASE) are passed over", async () => {
  const hello = built([extension(0x0a0a, Buffer.alloc(0)), serverName("a.test"), extension(0xfafa, Buffer.from([0]))]);
  expect(readHello(hello)).toEqual({ state: "complete", name: "a.test" });
});

test.each<[string, Buffer]>([
  ["two names", built([extension(0, nameList([entry("a.test"), entry("b.test")]))])],
  ["two lists of names", built([serverName("a.test"), serverName("b.test")])],
  ["a name of another kind", built([extension(0, nameList([entry("a.test", 1)]))])],
  ["an empty name", built([serverName("")])],
  ["a name with a NUL", built([serverName("a\0.test")])],
  ["a name with a space", built([serverName("a .test")])],
  ["a name that is not ASCII", built([serverName("ä.test")])],
  ["a wildcard", built([serverName("*.test")])],
  ["something behind the list", built([extension(0, Buffer.concat([nameList([entry("a.test")]), Buffer.from([0])]))])],
  ["an extension beyond the end", built([Buffer.from([0, 0, 0, 50, 1])])],
  ["something behind the extensions", built([serverName("a.test")], Buffer.from([0]))],
  ["another message", Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0])],
  ["a message of 16 MB", Buffer.from([22, 3, 1, 0, 4, 1, 255, 255, 255])],
  ["an empty record", Buffer.from([22, 3, 1, 0, 0])],
  ["a record that is too long", Buffer.from([22, 3, 1, 255, 255])],
  ["another record within", Buffer.from([22, 3, 1, 0, 2, 1, 0, 23, 3, 1, 0, 1, 0])],
  ["a thousand records", inRecords(built([serverName("a.test"), extension(21, Buffer.alloc(1000))]), 1)],
])("%s is refused", (_, bytes) => {
  expect(readHello(bytes)).toMatchObject({ state: "invalid" });
});

test("an address is no name", () => {
  expect(readHello(built([serverName("93.184.216.34")]))).toEqual({ state: "complete" });
});

test("whatever the bytes, it answers, and finds no name that is not in them", () => {
  const valid = built([serverName("a.test"), extension(16, Buffer.from("h2"))]);
  let seed = 1;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (seed >> 8) % below;
  };
  for (let round = 0; round < 50_000; round++) {
    const bytes = Buffer.from(valid);
    for (let changes = 1 + random(6); changes > 0; changes--) bytes[random(bytes.length)] = random(256);
    const read = readHello(bytes.subarray(0, random(2) === 0 ? bytes.length : random(bytes.length)));
    if (read.state === "complete" && read.name !== undefined) {
      expect(bytes.toString("latin1").toLowerCase()).toContain(read.name);
    }
  }
});

/** what Node's client sends first */
async function helloOf(options: ConnectionOptions): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const client = connectTls({ host: "127.0.0.1", port, ...options }).on("error", () => {});
  const [socket] = await once(server, "connection");
  const [bytes] = await once(socket, "data");
  client.destroy();
  server.close();
  return bytes;
}

function inRecords(hello: Buffer, size: number): Buffer {
  const body = hello.subarray(5);
  const count = Math.ceil(body.length / size);
  const pieces = Array.from({ length: count }, (_, at) => body.subarray(at * size, (at + 1) * size));
  return Buffer.concat(pieces.map(record));
}

function built(extensions: Buffer[], behind = Buffer.alloc(0)): Buffer {
  const fixed = Buffer.concat([Buffer.from([3, 3]), Buffer.alloc(32), Buffer.from([0, 0, 2, 0x13, 1, 1, 0])]);
  const body = Buffer.concat([fixed, counted(2, Buffer.concat(extensions)), behind]);
  return record(Buffer.concat([Buffer.from([1]), counted(3, body)]));
}

function record(fragment: Buffer): Buffer {
  return Buffer.concat([Buffer.from([22, 3, 1]), counted(2, fragment)]);
}

function serverName(name: string): Buffer {
  return extension(0, nameList([entry(name)]));
}

function nameList(entries: Buffer[]): Buffer {
  return counted(2, Buffer.concat(entries));
}

function entry(name: string, kind = 0): Buffer {
  return Buffer.concat([Buffer.from([kind]), counted(2, Buffer.from(name))]);
}

function extension(type: number, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type >> 8, type & 255]), counted(2, data)]);
}

function counted(size: number, bytes: Buffer): Buffer {
  const length = Buffer.alloc(size);
  length.writeUIntBE(bytes.length, 0, size);
  return Buffer.concat([length, bytes]);
}
