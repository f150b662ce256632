/**
 * The servers of test/internet.ts, run inside its network namespace on every address: a web page (TCP 80), an echo
 * (TCP and UDP 7 and 7007), a sink that answers with the SHA-256 of what it was sent (TCP 9), a source of bytes (TCP 19:
 * as many blocks as the first line asks for), and names (UDP and TCP 53). Prints "ready" and stays until its stdin ends.
 */

import { createHash } from "node:crypto";
import { createSocket, type Socket as Datagrams } from "node:dgram";
import { createServer as createWeb } from "node:http";
import { createServer, isIP, type Socket } from "node:net";
import {
  blockAt,
  forbiddenAddresses,
  forbiddenAddresses6,
  nameRecords,
  nameServer,
  webAddress,
  webAddress6,
} from "./internet-names.ts";

const addresses = [webAddress, webAddress6, nameServer, ...forbiddenAddresses, ...forbiddenAddresses6];

const web = createWeb((request, response) => response.end(`page for ${request.headers.host}`));
const echoes = [7, 7007].map((port) => ({
  port,
  server: createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)),
}));
const sink = createServer({ allowHalfOpen: true }, (socket) => {
  const hash = createHash("sha256");
  socket.on("data", (chunk) => hash.update(chunk));
  socket.on("end", () => socket.end(hash.digest("hex")));
});
const source = createServer((socket) => {
  socket.once("data", (line) => pour(socket, Number(line.toString())));
});
const names = createServer((socket) => {
  socket.on("data", (chunk: Buffer) => {
    const answer = answerTo(chunk.subarray(2), "tcp");
    if (!answer) return;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(answer.length);
    socket.write(Buffer.concat([length, answer]));
  });
});

for (const server of [...echoes.map(({ server }) => server), sink, source, names]) {
  server.on("connection", (socket: Socket) => socket.on("error", () => socket.destroy()));
}
await Promise.all([
  listening(web, 80),
  ...echoes.map(({ server, port }) => listening(server, port)),
  listening(sink, 9),
  listening(source, 19),
  listening(names, 53),
  ...addresses.flatMap((address) =>
    [7, 7007].map((port) =>
      datagrams(address, port, (socket, data, from) => socket.send(data, from.port, from.address)),
    ),
  ),
  datagrams(nameServer, 53, (socket, message, from) => {
    const answer = answerTo(message, "udp");
    if (answer) socket.send(answer, from.port, from.address);
  }),
]);
console.log("ready");
process.stdin.on("end", () => process.exit(0)).resume();

function listening(server: ReturnType<typeof createServer>, port: number): Promise<void> {
  return new Promise((resolve) => server.listen(port, "::", resolve));
}

type From = { address: string; port: number };

/** bound to one address each, so that answers come from where the question went */
function datagrams(
  address: string,
  port: number,
  receive: (socket: Datagrams, message: Buffer, from: From) => void,
): Promise<void> {
  const socket = createSocket(isIP(address) === 6 ? "udp6" : "udp4");
  socket.on("message", (message, from) => receive(socket, message, from));
  return new Promise((resolve) => socket.bind(port, address, resolve));
}

async function pour(socket: Socket, blocks: number): Promise<void> {
  for (let i = 0; i < blocks; i++) {
    if (!socket.write(blockAt(i))) await new Promise((resolve) => socket.once("drain", resolve));
  }
  socket.end();
}

/** an answer in the few words of DNS that these names need; undefined where silence is the answer */
function answerTo(question: Buffer, transport: "udp" | "tcp"): Buffer | undefined {
  const asked = questionIn(question);
  if (!asked) return undefined;
  const { name, type, end } = asked;
  const record = nameRecords[name];
  if (record?.only !== undefined && record.only !== transport) return undefined;
  const addresses = (type === 1 ? record?.a : type === 28 ? record?.aaaa : undefined) ?? [];
  const truncated = record?.truncated === true && transport === "udp";
  const header = Buffer.alloc(12);
  question.copy(header, 0, 0, 2);
  header.writeUInt16BE(0x8180 | (truncated ? 0x0200 : 0) | (record ? 0 : 3), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(truncated ? 0 : addresses.length, 6);
  const answers = truncated ? [] : addresses.map((bytes) => answerRecord(type, bytes));
  return Buffer.concat([header, question.subarray(12, end), ...answers]);
}

function answerRecord(type: number, address: number[]): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(60, 6);
  head.writeUInt16BE(address.length, 10);
  return Buffer.concat([head, Buffer.from(address)]);
}

function questionIn(packet: Buffer): { name: string; type: number; end: number } | undefined {
  const labels: string[] = [];
  let at = 12;
  while (at < packet.length && packet[at] !== 0) {
    const length = packet.readUInt8(at);
    labels.push(packet.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  if (at + 5 > packet.length) return undefined;
  return { name: labels.join("."), type: packet.readUInt16BE(at + 1), end: at + 5 };
}
