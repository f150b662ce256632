/**
 * Reads the name that a TLS client asks for, out of the first bytes it sends (RFC 8446, 4.1.2; RFC 6066, 3):
 *
 *   record      u8 type (22), u16 version, u16 length, fragment       one handshake message may span several
 *   handshake   u8 type (1), u24 length, body
 *   body        u16 version, 32 random, u8+ session, u16+ ciphers, u8+ compressions, u16+ extensions
 *   extension   u16 type, u16+ data; server_name (0) is u16+ of { u8 type (0), u16+ name }
 *
 * What a server may read in another way than we do is refused: a second name, a name of another kind, a length that
 * does not add up. The rest of the message does not matter, and a client that we do not understand is refused.
 */

import { hostName } from "../../core/network/network-policy.ts";

export type Hello =
  /** more bytes are needed; `needed` is the least total number */
  | { state: "partial"; needed: number }
  /** `name` is lower case; undefined when the client names no host */
  | { state: "complete"; name?: string }
  | { state: "invalid"; why: string };

/** no hello is longer, not even one with post-quantum keys and tickets */
const longestHello = 32 << 10;
/** clients split hellos into a few records at most; each one costs a parse */
const mostRecords = 64;
const longestRecord = 16 << 10;

export function isTls(bytes: Buffer): boolean {
  return bytes[0] === 22 && (bytes.length < 2 || bytes[1] === 3);
}

export function readHello(bytes: Buffer): Hello {
  const fragments: Buffer[] = [];
  let have = 0;
  for (let at = 0, records = 0; ; records++) {
    if (have >= 4) {
      const header = Buffer.concat(fragments.slice(0, 4)).subarray(0, 4);
      if (header[0] !== 1) return invalid("its first message is no client hello");
      const length = header.readUIntBE(1, 3);
      if (length > longestHello) return invalid("its hello is too long");
      if (have >= 4 + length) return readBody(Buffer.concat(fragments).subarray(4, 4 + length));
    }
    if (records === mostRecords) return invalid("its hello is cut into too many records");
    if (bytes.length < at + 5) return { state: "partial", needed: at + 5 };
    if (bytes[at] !== 22 || bytes[at + 1] !== 3) return invalid("it is not TLS");
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > longestRecord) return invalid("a record has no sensible length");
    if (bytes.length < at + 5 + length) return { state: "partial", needed: at + 5 + length };
    fragments.push(bytes.subarray(at + 5, at + 5 + length));
    have += length;
    at += 5 + length;
  }
}

function readBody(body: Buffer): Hello {
  const reader = new Reader(body);
  reader.take(2 + 32);
  const session = reader.vector(1);
  const ciphers = reader.vector(2);
  const compressions = reader.vector(1);
  if (reader.bad || session.length > 32 || ciphers.length < 2 || ciphers.length % 2 === 1 || compressions.length < 1) {
    return invalid("its hello is malformed");
  }
  if (reader.done) return { state: "complete" };
  const extensions = new Reader(reader.vector(2));
  if (reader.bad || !reader.done) return invalid("its hello is malformed");
  let names: Buffer | undefined;
  while (!extensions.done) {
    const type = extensions.number(2);
    const data = extensions.vector(2);
    if (extensions.bad) return invalid("an extension is malformed");
    if (type !== 0) continue;
    if (names) return invalid("it names a host twice");
    names = data;
  }
  return names ? readNames(names) : { state: "complete" };
}

function readNames(data: Buffer): Hello {
  const outer = new Reader(data);
  const list = new Reader(outer.vector(2));
  const type = list.number(1);
  const bytes = list.vector(2);
  if (outer.bad || !outer.done || list.bad || !list.done || type !== 0) return invalid("its server name is malformed");
  // Bytes beyond ASCII become characters that no host name has.
  const name = hostName(bytes.toString("latin1"));
  if (name === undefined) return invalid("its server name is not valid");
  // An address is not a name (RFC 6066): a hello with one names no host.
  return /^[\d.]+$/.test(name) ? { state: "complete" } : { state: "complete", name };
}

function invalid(why: string): Hello {
  return { state: "invalid", why };
}

/** Reads numbers and counted bytes; once it runs past the end it stays bad, and everything is empty. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  bad = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.bad || this.#at === this.#bytes.length;
  }

  take(length: number): Buffer {
    if (this.bad || this.#at + length > this.#bytes.length) {
      this.bad = true;
      return Buffer.alloc(0);
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  number(size: 1 | 2): number {
    const bytes = this.take(size);
    return this.bad ? 0 : bytes.readUIntBE(0, size);
  }

  /** as many bytes as the number before them says */
  vector(size: 1 | 2): Buffer {
    return this.take(this.number(size));
  }
}
