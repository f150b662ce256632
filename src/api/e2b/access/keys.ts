/**
 * API keys in the form that E2B's clients require. Some versions of its SDK accept only `e2b_` and hexadecimal digits,
 * which our keys are not. So a client may also send a key as `e2b_` and the key's bytes in hexadecimal.
 */

/** a key in the form that every version takes */
export function wireKeyOf(key: string): string {
  return `e2b_${Buffer.from(key).toString("hex")}`;
}

/** our key for the key that a client sends */
export function keyOf(given: string): string {
  const hex = /^e2b_((?:[0-9a-f]{2})+)$/.exec(given)?.[1];
  if (hex === undefined) return given;
  const text = Buffer.from(hex, "hex").toString("latin1");
  // A key that was configured in this very form decodes to random bytes, which are no valid key.
  return /^[\x21-\x7e]{8,}$/.test(text) ? text : given;
}
