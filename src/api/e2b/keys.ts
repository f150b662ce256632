/**
 * API keys in the form that E2B's clients want. Some versions of its SDK take nothing but `e2b_` and hexadecimal digits,
 * which keys of other wires are not; so a key may also come as `e2b_` and its own bytes in hexadecimal.
 */

/** the key that a client's key stands for */
export function keyOf(given: string): string {
  const hex = /^e2b_((?:[0-9a-f]{2})+)$/.exec(given)?.[1];
  if (hex === undefined) return given;
  const text = Buffer.from(hex, "hex").toString("latin1");
  // A key that somebody set, and that only looks like it, is random bytes: some of those no key has.
  return /^[\x21-\x7e]{8,}$/.test(text) ? text : given;
}
