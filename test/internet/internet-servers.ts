/**
 * The servers of test/internet/internet.ts, run inside its network namespace on every address: a web page (TCP 80), an echo
 * (TCP and UDP 7 and 7007; UDP 443 too), a sink that answers with the SHA-256 of its input (TCP 9), a source of
 * bytes (TCP 19: as many blocks as the first line asks for), names (UDP and TCP 53), and those of test/internet/internet-tls.ts.
 * Prints "ready" and stays until its stdin ends.
 */

import { createHash } from "node:crypto";
import { createSocket, type Socket as Datagrams } from "node:dgram";
import { createServer as createWeb } from "node:http";
import { createServer, isIP, type Socket } from "node:net";
import { type Answer, decode, encode, RECURSION_AVAILABLE, RECURSION_DESIRED, TRUNCATED_RESPONSE } from "dns-packet";
import {
  blockAt,
  evilAddress,
  forbiddenAddresses,
  forbiddenAddresses6,
  nameRecords,
  nameServer,
  otherAddress,
  otherAddress6,
  webAddress,
  webAddress6,
} from "./internet-names.ts";
import { tlsServers } from "./internet-tls.ts";

const webs = [webAddress, webAddress6, otherAddress, otherAddress6, evilAddress];
const addresses = [...webs, nameServer, ...forbiddenAddresses, ...forbiddenAddresses6];

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
  ...tlsServers().map(({ server, port }) => listening(server, port)),
  ...addresses.flatMap((address) =>
    [7, 443, 7007].map((port) =>
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
  // Other servers may take a port of one address.
  return new Promise((resolve) => server.listen({ port, host: "::", reusePort: true }, resolve));
}

type From = { address: string; port: number };

/** bound to one address each, so that an answer comes from the address of the question */
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

/** undefined if there is no answer */
function answerTo(packet: Buffer, transport: "udp" | "tcp"): Buffer | undefined {
  const { id, questions } = understood(packet) ?? {};
  const [question] = questions ?? [];
  if (!question) return undefined;
  const record = recordOf(question.name.toLowerCase());
  if (record?.only !== undefined && record.only !== transport) return undefined;
  const truncated = record?.truncated === true && transport === "udp";
  const flags = RECURSION_DESIRED | RECURSION_AVAILABLE | (truncated ? TRUNCATED_RESPONSE : 0) | (record ? 0 : 3);
  const answers = truncated ? [] : answersTo(question.name, question.type, record);
  return encode({ type: "response", id: id ?? 0, flags, questions: questions ?? [], answers });
}

function understood(packet: Buffer): ReturnType<typeof decode> | undefined {
  try {
    return decode(packet);
  } catch {
    // a client that sends anything at all has not asked a question
    return undefined;
  }
}

function recordOf(name: string): (typeof nameRecords)[string] | undefined {
  return nameRecords[name] ?? nameRecords[name.replace(/^[^.]+/, "*")];
}

function answersTo(name: string, type: string, record: ReturnType<typeof recordOf>): Answer[] {
  if (record?.alias !== undefined) {
    const alias: Answer = { type: "CNAME", name, data: record.alias, ttl: 60 };
    return [alias, ...answersTo(record.alias, type, recordOf(record.alias))];
  }
  const all: Record<string, Answer[]> = {
    A: (record?.a ?? []).map((data) => ({ type: "A", name, data, ttl: 60 })),
    AAAA: (record?.aaaa ?? []).map((data) => ({ type: "AAAA", name, data, ttl: 60 })),
    TXT: record?.txt === undefined ? [] : [{ type: "TXT", name, data: record.txt, ttl: 60 }],
    // A key that would let a program hide the name of its host (ECH).
    HTTPS: [{ type: "HTTPS" as "NULL", name, data: Buffer.from("000100000500020001", "hex"), ttl: 60 }],
  };
  return all[type] ?? [];
}
