/** A digest of values, for names of things that are the same whenever their inputs are. */

import { createHash } from "node:crypto";

/** as 64 hexadecimal digits; values are those of JSON, and the order of an object's members counts */
export function sha256Of(...values: unknown[]): string {
  return createHash("sha256").update(JSON.stringify(values)).digest("hex");
}
