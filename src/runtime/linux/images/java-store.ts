/**
 * Java's list of trusted certificates ("cacerts"), which it reads from a file of its own rather than from the system's
 * bundle. We write JKS, which every Java reads even if it writes another format:
 *
 *   u32 0xFEEDFEED, u32 version (2), u32 count
 *   count × u32 tag (2: a trusted certificate), utf alias, u64 ms since 1970, utf "X.509", u32 length, DER
 *   SHA-1 of the password in UTF-16BE, "Mighty Aphrodite", and everything before
 *
 * utf is u16 length and that many bytes. The password protects nothing, and is "changeit" everywhere.
 */

import { createHash, X509Certificate } from "node:crypto";

/** the store with these PEMs added; undefined if nothing is missing, or it is not a store that we can read */
export function withCertificates(store: Uint8Array, pems: readonly string[]): Buffer | undefined {
  const bytes = Buffer.from(store);
  const there = isJks(bytes) ? entriesOf(bytes) : certificatesIn(bytes);
  if (!there) return undefined;
  const known = new Set(there.map(({ der }) => der.toString("base64")));
  const missing = pems
    .map((pem) => new X509Certificate(pem))
    .filter(({ raw }) => !known.has(raw.toString("base64")))
    .map((certificate) => ({
      alias: `sandkeep-${hash(certificate.raw).toString("hex").slice(0, 16)}`,
      der: certificate.raw,
    }));
  return missing.length === 0 ? undefined : written([...there, ...missing]);
}

interface Entry {
  alias: string;
  der: Buffer;
}

const magic = 0xfeedfeed;
const version = 2;
const believed = 2;
const digestLength = 20;

function isJks(bytes: Buffer): boolean {
  return bytes.length >= 12 + digestLength && bytes.readUInt32BE(0) === magic && bytes.readUInt32BE(4) === version;
}

/** undefined if there are entries of another kind: we do not touch keys */
function entriesOf(bytes: Buffer): Entry[] | undefined {
  const entries: Entry[] = [];
  let at = 8;
  const number = (size: 2 | 4) => {
    at += size;
    return bytes.readUIntBE(at - size, size);
  };
  const take = (length: number) => {
    at += length;
    if (at > bytes.length - digestLength) throw new RangeError("cut short");
    return bytes.subarray(at - length, at);
  };
  try {
    for (let left = number(4); left > 0; left--) {
      if (number(4) !== believed) return undefined;
      const alias = take(number(2)).toString("utf8");
      take(8);
      take(number(2));
      entries.push({ alias, der: Buffer.from(take(number(4))) });
    }
    return entries;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** the bytes before each certificate in a PKCS #12 file that is not encrypted: OID 1.2.840.113549.1.9.22.1 */
const certificateBag = Buffer.from("060a2a864886f70d01091601", "hex");

/** the certificates of a store without a password, as later versions of Java have it; undefined if it holds none */
function certificatesIn(bytes: Buffer): Entry[] | undefined {
  const entries: Entry[] = [];
  for (let at = bytes.indexOf(certificateBag); at >= 0; at = bytes.indexOf(certificateBag, at + 1)) {
    // [0] { OCTET STRING { the certificate } }
    const tagged = contentOf(bytes, at + certificateBag.length, 0xa0);
    const der = tagged && contentOf(tagged, 0, 0x04);
    if (!der) return undefined;
    entries.push({ alias: `certificate-${entries.length + 1}`, der: Buffer.from(der) });
  }
  return entries.length === 0 ? undefined : entries;
}

/** the content of the DER value with this tag at this offset */
function contentOf(bytes: Buffer, at: number, tag: number): Buffer | undefined {
  if (bytes[at] !== tag) return undefined;
  const first = bytes[at + 1] ?? 0;
  const size = first < 0x80 ? 0 : first - 0x80;
  if (size > 4 || at + 2 + size > bytes.length) return undefined;
  const length = size === 0 ? first : bytes.readUIntBE(at + 2, size);
  const begin = at + 2 + size;
  return begin + length > bytes.length ? undefined : bytes.subarray(begin, begin + length);
}

function written(entries: Entry[]): Buffer {
  const body = Buffer.concat([
    u32(magic),
    u32(version),
    u32(entries.length),
    ...entries.flatMap(({ alias, der }) => [
      u32(believed),
      utf(alias),
      Buffer.alloc(8),
      utf("X.509"),
      u32(der.length),
      der,
    ]),
  ]);
  const password = Buffer.from("changeit", "utf16le").swap16();
  return Buffer.concat([body, hash(password, Buffer.from("Mighty Aphrodite"), body)]);
}

function hash(...parts: Uint8Array[]): Buffer {
  const sum = createHash("sha1");
  for (const part of parts) sum.update(part);
  return sum.digest();
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function utf(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
