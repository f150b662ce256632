/**
 * A disk with a volatile cache, as a FUSE file system with two files. Runs as a process of its own, on the kernel's side
 * of file descriptor 3 (/dev/fuse, mounted by volatile-disk.ts).
 *
 *   disk   an image for a loop device. A write goes at once into <current>, which serves reads, and into a list. A
 *          flush (FSYNC, which a loop device sends for each flush of the block layer) applies the list to <durable>
 *   lose   writing a seed to it makes <lost>: the content of <durable> plus a random part of the writes in the list,
 *          as a disk may have written some of its cache when the power went
 *
 * It handles one request at a time, so <lost> is the disk of one moment. include/uapi/linux/fuse.h defines the formats.
 */

import { execFileSync } from "node:child_process";
import { fstatSync, openSync, readSync, writeSync } from "node:fs";
import { randomFrom } from "../harness/random.ts";

const [, , current = "", durable = "", lost = ""] = process.argv;
const kernel = 3;
const longestWrite = 1 << 20;

const codes = { lookup: 1, forget: 2, getattr: 3, setattr: 4, open: 14, read: 15, write: 16, statfs: 17, release: 18 };
const later = { fsync: 20, flush: 25, init: 26, interrupt: 36, batchForget: 42 };
const op = { ...codes, ...later };
const unanswered = new Set<number>([op.forget, op.interrupt, op.batchForget]);
const nodes = { root: 1n, disk: 2n, lose: 3n };
const errors = { noEntry: -2, noFunction: -38 };

const files = { current: openSync(current, "r+"), durable: openSync(durable, "r+") };
const size = fstatSync(files.current).size;
let unflushed: { at: number; data: Buffer }[] = [];

interface Request {
  opcode: number;
  node: bigint;
  body: Buffer;
}

const buffer = Buffer.alloc(longestWrite + 8192);
for (;;) {
  const length = next();
  if (length === 0) break;
  const opcode = buffer.readUInt32LE(4);
  if (unanswered.has(opcode)) continue;
  const request = { opcode, node: buffer.readBigUInt64LE(16), body: buffer.subarray(40, length) };
  const answer = answerTo(request);
  const header = Buffer.alloc(16);
  const payload = typeof answer === "number" ? Buffer.alloc(0) : answer;
  header.writeUInt32LE(16 + payload.length, 0);
  header.writeInt32LE(typeof answer === "number" ? answer : 0, 4);
  buffer.copy(header, 8, 8, 16);
  try {
    writeSync(kernel, Buffer.concat([header, payload]));
  } catch (error) {
    // The requester was interrupted and waits no longer.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** length of the next request in the buffer; 0 once the file system is unmounted */
function next(): number {
  for (;;) {
    try {
      return readSync(kernel, buffer);
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (code === "ENODEV") return 0;
      if (!["EINTR", "EAGAIN", "ENOENT"].includes(code)) throw error;
    }
  }
}

function answerTo({ opcode, node, body }: Request): Buffer | number {
  switch (opcode) {
    case op.init:
      return greeting(body);
    case op.lookup:
      return found(body.toString("latin1", 0, body.indexOf(0)));
    case op.getattr:
    case op.setattr:
      return Buffer.concat([Buffer.alloc(16), attributes(node)]);
    case op.open:
      return Buffer.alloc(16);
    case op.statfs:
      return Buffer.alloc(80);
    case op.read:
      return read(Number(body.readBigUInt64LE(8)), body.readUInt32LE(16));
    case op.write:
      return written(node, Number(body.readBigUInt64LE(8)), body.subarray(40, 40 + body.readUInt32LE(16)));
    case op.fsync:
      return flushed();
    case op.release:
    case op.flush:
      return 0;
    default:
      return errors.noFunction;
  }
}

function greeting(body: Buffer): Buffer {
  const bigWrites = (1 << 5) | (1 << 22);
  const answer = Buffer.alloc(64);
  answer.writeUInt32LE(7, 0);
  answer.writeUInt32LE(31, 4);
  answer.writeUInt32LE(body.readUInt32LE(8), 8);
  answer.writeUInt32LE(body.readUInt32LE(12) & bigWrites, 12);
  answer.writeUInt16LE(64, 16);
  answer.writeUInt16LE(48, 18);
  answer.writeUInt32LE(longestWrite, 20);
  answer.writeUInt32LE(1, 24);
  answer.writeUInt16LE(longestWrite >> 12, 28);
  return answer;
}

function found(name: string): Buffer | number {
  const node = name === "disk" ? nodes.disk : name === "lose" ? nodes.lose : undefined;
  if (node === undefined) return errors.noEntry;
  const head = Buffer.alloc(40);
  head.writeBigUInt64LE(node, 0);
  return Buffer.concat([head, attributes(node)]);
}

function attributes(node: bigint): Buffer {
  const answer = Buffer.alloc(88);
  answer.writeBigUInt64LE(node, 0);
  answer.writeBigUInt64LE(node === nodes.disk ? BigInt(size) : 0n, 8);
  answer.writeUInt32LE(node === nodes.root ? 0o40700 : 0o100600, 60);
  answer.writeUInt32LE(1, 64);
  answer.writeUInt32LE(4096, 80);
  return answer;
}

function read(at: number, length: number): Buffer {
  const data = Buffer.alloc(Math.max(0, Math.min(length, size - at)));
  readSync(files.current, data, 0, data.length, at);
  return data;
}

function written(node: bigint, at: number, data: Buffer): Buffer {
  if (node === nodes.lose) lose(Number(data.toString()));
  else {
    writeSync(files.current, data, 0, data.length, at);
    unflushed.push({ at, data: Buffer.from(data) });
  }
  const answer = Buffer.alloc(8);
  answer.writeUInt32LE(data.length, 0);
  return answer;
}

function flushed(): number {
  for (const { at, data } of unflushed) writeSync(files.durable, data, 0, data.length, at);
  unflushed = [];
  return 0;
}

/**
 * Each unflushed write is on the lost disk or not, and of a long one perhaps a part: a disk writes sectors. With the
 * seed 0 none of them is.
 */
function lose(seed: number): void {
  execFileSync("cp", ["--sparse=always", "--reflink=auto", durable, lost]);
  const random = randomFrom(seed);
  const file = openSync(lost, "r+");
  const luck = seed === 0 ? 1 : random();
  for (const { at, data } of unflushed) {
    if (random() < luck) continue;
    const part = random() < 0.8 ? data.length : Math.floor((random() * data.length) / 512) * 512;
    writeSync(file, data, 0, part, at);
  }
}
