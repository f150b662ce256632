/**
 * Finds files of a session by name or content. The search is a process inside the sandbox, run as the session's user:
 * it uses the sandbox's time and memory, and sees what that user sees. Its output is not trusted.
 */

import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Machine, OutputChunk } from "../ports/runtime.ts";

export interface SearchSpec {
  /** absolute; a directory, or a file */
  path: string;
  /** text that a line contains; without it, only names are compared */
  text?: string | undefined;
  /** whether the text is an extended regular expression */
  regex?: boolean | undefined;
  /** pattern of file names, such as "*.ts" */
  glob?: string | undefined;
  /** most matches */
  limit: number;
  signal?: AbortSignal | undefined;
}

export interface Match {
  path: string;
  /** counted from 1 */
  line?: number;
  /** the line, or its beginning */
  text?: string;
}

export interface Found {
  matches: Match[];
  /** whether there may be more than these */
  more: boolean;
}

/** longest that a search runs, in ms */
const patience = 30_000;
const longestLine = 500;
/** most bytes kept of a path and line whose end has not arrived */
const longestRecord = 64 << 10;
/** most bytes read of the program's output */
const mostOutput = 32 << 20;
const kill = 9;

export async function search(machine: Machine, user: string, id: string, spec: SearchSpec): Promise<Found> {
  // The program would take each line for a text of its own, and an empty one for a text that every line contains.
  if (spec.text?.includes("\n")) {
    throw new SandkeepError("invalid", "Cannot search for several lines at once: the text has a line break in it");
  }
  const process = await machine
    .exec({ id, argv: argvOf(spec), cwd: "/", user, env: { LC_ALL: "C.UTF-8" }, timeLimit: patience })
    .catch((cause) => {
      if (!isSandkeepError(cause, "invalid", "executable")) throw cause;
      throw new SandkeepError("unsupported", `Cannot search: "${argvOf(spec)[0]}" is not in this sandbox's image`);
    });
  try {
    const output = process.output({ ...(spec.signal && { signal: spec.signal }) });
    const { matches, more, complaint } = await collect(output, spec);
    if (more) return { matches, more };
    spec.signal?.throwIfAborted();
    const { code, timedOut } = await process.exited;
    const why = firstLine(complaint);
    if (matches.length === 0 && !timedOut && hasFailed(spec, code, why)) {
      throw new SandkeepError("invalid", `Cannot search "${spec.path}": ${why || `it ended with ${code}`}`);
    }
    return { matches, more: timedOut };
  } finally {
    if (!process.exit) await process.signal(kill).catch(() => undefined);
  }
}

/**
 * Names end with NUL, which no name contains. grep prints the name also if the path is a file (-H), and find follows the
 * path if it is a link (-H), as grep does.
 */
function argvOf({ path, text, regex, glob }: SearchSpec): string[] {
  if (text === undefined)
    return ["find", "-H", path, "-type", "f", ...(glob === undefined ? [] : ["-name", glob]), "-print0"];
  const include = glob === undefined ? [] : [`--include=${glob}`];
  return ["grep", "-rnHIZ", regex ? "-E" : "-F", ...include, "-e", text, "--", path];
}

/** Whether the search failed entirely. Both programs also report errors for single files, which may be unreadable. */
function hasFailed({ path, text }: SearchSpec, code: number, complaint: string): boolean {
  if (code < (text === undefined ? 1 : 2)) return false;
  const below = path.endsWith("/") ? path : `${path}/`;
  // "grep: /path/file: why", "find: '/path/file': why", with quotes of any kind
  return !complaint.replace(/^\w+: ['"‘]?/, "").startsWith(below);
}

async function collect(output: AsyncIterable<OutputChunk>, { text, limit }: SearchSpec) {
  const matches: Match[] = [];
  const names = text === undefined;
  let [rest, complaint, read]: [Buffer, Buffer, number] = [Buffer.alloc(0), Buffer.alloc(0), 0];
  for await (const { stream, data } of output) {
    read += data.length;
    if (stream === "stderr") {
      // A line may arrive in pieces.
      if (complaint.length < longestLine) complaint = Buffer.concat([complaint, data]);
      continue;
    }
    // Keep only the beginning of an endless line.
    rest = rest.length === 0 ? Buffer.from(data) : Buffer.concat([rest.subarray(0, longestRecord), data]);
    for (let end = endOf(rest, names); end >= 0; end = endOf(rest, names)) {
      const match = matchOf(rest.subarray(0, end), names);
      rest = rest.subarray(end + 1);
      if (!match) continue;
      if (matches.length === limit) return { matches, more: true, complaint };
      matches.push(match);
    }
    if (read > mostOutput) return { matches, more: true, complaint };
  }
  return { matches, more: false, complaint };
}

/** where a record ends: a name with NUL, and a line with the line break after its name, which may have some itself */
function endOf(bytes: Buffer, isName: boolean): number {
  const nul = bytes.indexOf(0);
  return isName || nul < 0 ? nul : bytes.indexOf(10, nul + 1);
}

/** "path", or "path NUL line:text" */
function matchOf(bytes: Buffer, isName: boolean): Match | undefined {
  if (isName) return { path: bytes.toString("utf8") };
  const nul = bytes.indexOf(0);
  const colon = bytes.indexOf(":", nul + 1);
  if (nul < 0 || colon < 0) return undefined;
  const line = Number(bytes.toString("latin1", nul + 1, colon));
  if (!Number.isSafeInteger(line)) return undefined;
  const text = bytes.subarray(colon + 1, colon + 1 + 4 * longestLine).toString("utf8");
  return { path: bytes.toString("utf8", 0, nul), line, text: text.slice(0, longestLine) };
}

function firstLine(data: Uint8Array): string {
  const [line = ""] = Buffer.from(data.subarray(0, longestLine)).toString("utf8").split("\n");
  return line.trim();
}
