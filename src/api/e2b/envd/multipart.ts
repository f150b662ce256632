/**
 * Reads a multipart/form-data body as a stream, one part after the other, without buffering it:
 *
 *   --boundary CRLF headers CRLF CRLF bytes CRLF --boundary CRLF … CRLF --boundary-- and anything
 *
 * Unlike in forms from browsers, a file's name may be a path. This parser does not interpret it.
 */

import { SandkeepError } from "../../../core/model/errors.ts";

export interface Part {
  /** name of the form's field */
  name: string;
  filename: string | undefined;
  /** must be read to its end before the next part */
  bytes: AsyncIterable<Uint8Array>;
}

/** most bytes of the headers of one part */
const longestHead = 16 << 10;
const lineEnd = Buffer.from("\r\n");
const headEnd = Buffer.from("\r\n\r\n");

/** the boundary that a content type names; undefined if it is not a form */
export function boundaryOf(contentType: string | null): string | undefined {
  const form = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i;
  const [, quoted, plain] = form.exec(contentType ?? "") ?? [];
  return quoted ?? plain;
}

export async function* partsOf(body: AsyncIterable<Uint8Array>, boundary: string): AsyncGenerator<Part> {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first boundary may have no line end before it, so begin with one.
  const scanner = new Scanner(body, lineEnd);
  for await (const _ of scanner.until(delimiter)) {
    // Skip the preamble, which is for readers that do not support multipart.
  }
  for (;;) {
    const line = await scanner.line(lineEnd, longestHead);
    if (line.startsWith("--")) return scanner.finish(longestHead);
    if (line.trim() !== "") throw malformed("a boundary is followed by something else than a line's end");
    const head = await scanner.line(headEnd, longestHead);
    const bytes = scanner.until(delimiter);
    yield { ...dispositionOf(head), bytes };
    // Skip what the caller did not read.
    for await (const _ of bytes);
  }
}

/** the name of the field and of the file */
function dispositionOf(head: string): Pick<Part, "name" | "filename"> {
  const line = head.split("\r\n").find((each) => /^content-disposition\s*:/i.test(each)) ?? "";
  const name = parameter(line, "name");
  if (name === undefined) throw malformed("a part has no name");
  const [, extended] = /;\s*filename\*=utf-8''([^;\s]*)/i.exec(line) ?? [];
  if (extended === undefined) return { name, filename: parameter(line, "filename") };
  try {
    return { name, filename: decodeURIComponent(extended) };
  } catch {
    throw malformed("the name of a file is not encoded as it should be");
  }
}

/** browsers and Node escape quotes and line ends with percent signs; other clients escape quotes with a backslash */
function parameter(line: string, name: string): string | undefined {
  const [, quoted, plain] = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s"]*))`, "i").exec(line) ?? [];
  if (quoted === undefined) return plain;
  const escapes: Record<string, string> = { "%22": '"', "%0D": "\r", "%0A": "\n", '\\"': '"', "\\\\": "\\" };
  return quoted.replace(/%22|%0D|%0A|\\["\\]/gi, (found) => escapes[found.toUpperCase()] ?? found);
}

/** Cuts a stream of bytes at markers. */
class Scanner {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Buffer;

  constructor(source: AsyncIterable<Uint8Array>, before: Buffer) {
    this.#source = source[Symbol.asyncIterator]();
    this.#rest = before;
  }

  /** the bytes before the next marker, which is consumed */
  async *until(marker: Buffer): AsyncGenerator<Uint8Array> {
    for (;;) {
      const at = this.#rest.indexOf(marker);
      if (at >= 0) {
        const found = this.#rest.subarray(0, at);
        this.#rest = this.#rest.subarray(at + marker.length);
        if (found.length > 0) yield found;
        return;
      }
      // The last bytes may be the beginning of the marker. Mostly they are not, and nothing has to be copied.
      const sure = this.#rest.length - begunAtEnd(this.#rest, marker);
      const known = this.#rest.subarray(0, sure);
      this.#rest = this.#rest.subarray(sure);
      if (known.length > 0) yield known;
      await this.#more();
    }
  }

  /** the text before the next marker */
  async line(marker: Buffer, longest: number): Promise<string> {
    for (;;) {
      const at = this.#rest.indexOf(marker);
      // The body may end right after the last boundary.
      if (at < 0 && this.#rest.length >= 2 && this.#rest.subarray(0, 2).toString() === "--") return "--";
      if (at > longest || (at < 0 && this.#rest.length > longest)) throw malformed("the head of a part is too long");
      if (at >= 0) {
        const text = this.#rest.subarray(0, at).toString("utf8");
        this.#rest = this.#rest.subarray(at + marker.length);
        return text;
      }
      await this.#more();
    }
  }

  /** reads and ignores the rest, because a connection is reused only when its body was read */
  async finish(longest: number): Promise<void> {
    for (let left = longest; left >= 0; ) {
      const { done, value } = await this.#source.next();
      if (done) return;
      left -= value.length;
    }
    throw malformed("too much comes after its end");
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#source.next();
    if (done) throw malformed("it ends in the middle of a part");
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
  }
}

/** how many of the last bytes are the beginning of the marker */
function begunAtEnd(bytes: Buffer, marker: Buffer): number {
  const first = marker[0] ?? 0;
  let at = bytes.indexOf(first, Math.max(0, bytes.length - marker.length + 1));
  while (at >= 0 && !bytes.subarray(at).equals(marker.subarray(0, bytes.length - at))) {
    at = bytes.indexOf(first, at + 1);
  }
  return at < 0 ? 0 : bytes.length - at;
}

function malformed(why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot read the form: ${why}`);
}
