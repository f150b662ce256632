/** Which bytes of a file a request for a part of it means (RFC 9110, section 14). */

export interface ByteRange {
  /** offset of the first byte */
  from: number;
  /** offset behind the last */
  to: number;
}

/**
 * the one range that the header asks for; undefined for all of the file, also where several are asked for, which a server
 * need not give; "unsatisfiable" where the file has no such bytes
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
