/** Parses the Range header of a request for a part of a file (RFC 9110, section 14). */

export interface ByteRange {
  /** offset of the first byte */
  from: number;
  /** offset after the last byte */
  to: number;
}

/**
 * The range that the header asks for. Undefined means the whole file, also for several ranges, which a server need not
 * support. "unsatisfiable" means that the file has no such bytes.
 */
export function byteRange(header: string | null, size: number): ByteRange | "unsatisfiable" | undefined {
  const [, first = "", last = ""] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  if (first === "") {
    const count = Math.min(Number(last), size);
    return count === 0 ? "unsatisfiable" : { from: size - count, to: size };
  }
  const from = Number(first);
  if (last !== "" && Number(last) < from) return undefined;
  if (from >= size) return "unsatisfiable";
  return { from, to: last === "" ? size : Math.min(Number(last) + 1, size) };
}
