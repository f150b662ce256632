/** JSON that another process has written, or a part of it that a process which was killed has left. */

/** undefined for what is no JSON */
export function parsedJson(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    return undefined;
  }
}
