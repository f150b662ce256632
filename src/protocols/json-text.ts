/** Parses JSON of another process, which may be incomplete if that process was killed. */

/** undefined for invalid JSON */
export function parsedJson(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    return undefined;
  }
}
