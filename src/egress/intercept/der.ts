/** The few words of DER (ITU-T X.690) that a certificate needs: each function writes one value with its tag and length. */

export function sequence(...parts: Buffer[]): Buffer {
  return value(0x30, Buffer.concat(parts));
}

export function set(...parts: Buffer[]): Buffer {
  return value(0x31, Buffer.concat(parts));
}

/** of an unsigned number, most significant byte first */
export function integer(number: Buffer): Buffer {
  let start = 0;
  while (start < number.length - 1 && number[start] === 0) start++;
  const shortest = number.subarray(start);
  // The first bit is the sign.
  return value(0x02, (shortest[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), shortest]) : shortest);
}

export function boolean(truth: boolean): Buffer {
  return value(0x01, Buffer.of(truth ? 0xff : 0));
}

export function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return value(0x06, Buffer.from([first * 40 + second, ...rest].flatMap(base128)));
}

export function text(content: string): Buffer {
  return value(0x0c, Buffer.from(content, "utf8"));
}

/** before 2050, as such times are written in two ways and this is the one until then */
export function time(at: number): Buffer {
  const digits = new Date(at)
    .toISOString()
    .replace(/\.\d+Z$/, "")
    .replace(/\D/g, "");
  return value(0x17, Buffer.from(`${digits.slice(2)}Z`, "latin1"));
}

export function octets(content: Buffer): Buffer {
  return value(0x04, content);
}

/** `unused` is the number of bits at the end that mean nothing */
export function bits(content: Buffer, unused = 0): Buffer {
  return value(0x03, Buffer.concat([Buffer.of(unused), content]));
}

/** a value in the place of the given number; `constructed` when its content is itself DER */
export function tagged(number: number, content: Buffer, constructed: boolean): Buffer {
  return value((constructed ? 0xa0 : 0x80) | number, content);
}

function value(tag: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(tag), lengthOf(content), content]);
}

function lengthOf({ length }: Buffer): Buffer {
  if (length < 0x80) return Buffer.of(length);
  return length < 0x100 ? Buffer.of(0x81, length) : Buffer.of(0x82, length >> 8, length & 0xff);
}

function base128(number: number): number[] {
  const digits = [number & 0x7f];
  for (let rest = number >>> 7; rest > 0; rest >>>= 7) digits.unshift(0x80 | (rest & 0x7f));
  return digits;
}
