/**
 * A line of the daemon's log, in its two formats:
 *
 *   pretty   sandkeep: Cannot reach the database: …   request=r-4TQx… session=sbx_…
 *   json     {"level":"error","time":"2026-01-31T12:00:00.000Z","request":"r-4TQx…","session":"sbx_…","msg":"Cannot …"}
 */

export const logFormats = ["pretty", "json"] as const;
export const logLevels = ["debug", "info", "warn", "error"] as const;

/** what names the things that a line is about, in the order in which people see them */
const named = ["process", "request", "team", "key", "sandbox", "session", "command"];

/** An error as log.ts has written it. */
interface PrintedError {
  code?: string;
  cause?: string;
}

/** a line of JSON for people: its sentence, and what it is about */
export function pretty(json: string): string {
  const fields = JSON.parse(json) as Record<string, unknown> & { err?: PrintedError }; // as log.ts has written it
  const about = named.flatMap((name) => (fields[name] === undefined ? [] : [`${name}=${String(fields[name])}`]));
  return `sandkeep: ${String(fields.msg)}${causeOf(fields.err)}${about.length > 0 ? `   ${about.join(" ")}` : ""}\n`;
}

/** clients get no details of an internal error, so this is where an operator finds its cause, such as a file's path */
function causeOf({ code, cause }: PrintedError = {}): string {
  return code === "internal" && cause !== undefined ? ` (${cause})` : "";
}
