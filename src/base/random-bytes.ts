/** Random bytes in small pieces: one call of the kernel's generator serves many of them. */

import { randomBytes } from "node:crypto";

const poolSize = 4096;
/** pieces that are longer come from the generator directly */
const longest = 256;

let pool = Buffer.alloc(0);
let used = 0;

let letters = "";

/** so many letters of base64url, of 6 random bits each; for names, as they are not erased from memory like keys */
export function randomText(length: number): string {
  if (length > letters.length) letters = randomBytes(poolSize).toString("base64url");
  const text = letters.slice(0, length);
  letters = letters.slice(length);
  return text;
}

/** as safe as `randomBytes` of node:crypto, and faster for a few bytes */
export function fewRandomBytes(count: number): Buffer {
  if (count > longest) return randomBytes(count);
  if (used + count > pool.length) {
    pool = randomBytes(poolSize);
    used = 0;
  }
  const bytes = Buffer.from(pool.subarray(used, used + count));
  // What was handed out may be a key: it does not stay here.
  pool.fill(0, used, used + count);
  used += count;
  return bytes;
}
