/** What a line of an egress log says: what was decided, and whether a policy could decide otherwise. */

/** a line as the daemon sends it; see docs/egress.md */
export interface Line {
  [member: string]: unknown;
}

/**
 * "failed" was allowed, and came to nothing all the same. "closed" is the end of connections that an earlier line allowed.
 * "unseen" stands for lines that are missing.
 */
export type Verdict = "allowed" | "refused" | "failed" | "closed" | "unseen";

export function verdictOf({ allowed, failure, count, dropped, forgotten }: Line): Verdict {
  if (dropped !== undefined || forgotten !== undefined) return "unseen";
  if (count === 0) return "closed";
  if (allowed === false) return "refused";
  return failure === undefined ? "allowed" : "failed";
}

/** whether a policy could allow what was refused; no policy opens private addresses, for example */
export function isAllowable(line: Line): boolean {
  return verdictOf(line) === "refused" && line.missing !== undefined;
}

/** bytes to and from hosts, or through ports */
export interface Traffic {
  bytesIn: number;
  bytesOut: number;
}

export function sumOf(all: readonly Traffic[]): Traffic {
  const sum = { bytesIn: 0, bytesOut: 0 };
  for (const { bytesIn, bytesOut } of all) {
    sum.bytesIn += bytesIn;
    sum.bytesOut += bytesOut;
  }
  return sum;
}
