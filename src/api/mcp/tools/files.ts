/** Tools for files of a running sandbox: read, write, list, search. Relative paths begin at the sandbox's directory. */

import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { resolvePath } from "../../../core/files/files.ts";
import { handle, sessionOf } from "../handle.ts";
import { unfinished } from "../output.ts";
import { path, text } from "../schema.ts";
import { destructive, readOnly, type Tool, tool } from "../tool.ts";

const where = path.describe("Absolute, or relative to the sandbox's cwd.");
const none = z.null();

const readFile = tool({
  name: "read_file",
  title: "Read a file",
  description:
    "Read a file of a running sandbox, or a part of it. Use it to look at code, logs and results. Returns text as it is " +
    "and anything else as base64, which encoding tells, and next_offset to read on from, which is null at the end of " +
    "the file.",
  input: z.strictObject({
    ...handle,
    path: where,
    offset: z.int().min(0).default(0).describe("Byte to begin with."),
    max_bytes: z
      .int()
      .min(1024)
      .max(1 << 20)
      .default(256 << 10)
      .describe("Most bytes to return."),
  }),
  output: z.strictObject({
    path: z.string(),
    content: z.string(),
    encoding: z.enum(["utf-8", "base64"]),
    size: z.int().min(0).describe("Bytes of the whole file."),
    next_offset: z.union([z.int().min(0), none]).describe("Where to read on; null at the end of the file."),
  }),
  hints: readOnly,
  async run({ path: name, offset, max_bytes: length, ...args }, call) {
    const session = await sessionOf(call, args);
    const { file, data } = await call.core.files.readPart(call.caller, session.id, name, { offset, length });
    const full = data.length === length;
    const whole = full ? data.subarray(0, data.length - unfinished(data)) : data;
    const isText = isUtf8(whole);
    const part = isText ? whole : data;
    const end = offset + part.length;
    return {
      path: file.path,
      content: part.toString(isText ? "utf8" : "base64"),
      encoding: isText ? ("utf-8" as const) : ("base64" as const),
      size: file.size,
      next_offset: full && end !== file.size ? end : null,
    };
  },
});

const writeFile = tool({
  name: "write_file",
  title: "Write a file",
  description:
    "Write a file in a running sandbox, and make the directories on its path. Use it for code and data, which need no " +
    "quoting here as they do in a command. An existing file is replaced, or continued with append. Returns its absolute " +
    "path and its size.",
  input: z
    .strictObject({
      ...handle,
      path: where,
      content: z
        .string()
        .max(3 << 20)
        .refine((value) => value.isWellFormed(), "`content` has half a character in it.")
        .describe("Text, or bytes as base64."),
      encoding: z.enum(["utf-8", "base64"]).default("utf-8").describe("What content is."),
      append: z.boolean().default(false).describe("Add to the end of the file."),
      executable: z.boolean().default(false).describe("Make a new file executable."),
    })
    .refine(({ content, encoding }) => encoding === "utf-8" || isBase64(content), "`content` is not base64."),
  output: z.strictObject({ path: z.string(), size: z.int().min(0).describe("Bytes of the file now.") }),
  hints: destructive,
  async run({ path: name, content, encoding, append, executable, ...args }, call) {
    const session = await sessionOf(call, args);
    const data = Buffer.from(content, encoding === "utf-8" ? "utf8" : "base64");
    const mode = executable ? 0o755 : 0o644;
    const file = await call.core.files.write(call.caller, session.id, name, data, { append, mode, parents: true });
    return { path: file.path, size: file.size };
  },
});

const listFiles = tool({
  name: "list_files",
  title: "List a directory",
  description:
    "List a directory of a running sandbox, sorted by name. Use it to learn which files are there. Returns name, type, " +
    "size and time of each entry, and next_offset, which is null after the last.",
  input: z.strictObject({
    ...handle,
    path: where.default("."),
    offset: z.int().min(0).default(0).describe("Entries to skip."),
    limit: z.int().min(1).max(1000).default(200).describe("Most entries to return."),
  }),
  output: z.strictObject({
    path: z.string(),
    entries: z.array(
      z.strictObject({
        name: z.string(),
        type: z.enum(["file", "directory", "symlink", "fifo", "socket", "device"]),
        size: z.int().min(0),
        modified_at: z.string(),
      }),
    ),
    total: z.int().min(0).describe("Entries of the directory."),
    next_offset: z.union([z.int().min(0), none]).describe("Where to continue; null after the last entry."),
  }),
  hints: readOnly,
  async run({ path: name, offset, limit, ...args }, call) {
    const session = await sessionOf(call, args);
    const all = await call.core.files.list(call.caller, session.id, name);
    const entries = all.toSorted((a, b) => (a.name < b.name ? -1 : 1)).slice(offset, offset + limit);
    return {
      path: resolvePath(session.cwd, undefined, name),
      entries: entries.map((entry) => ({
        name: entry.name,
        type: entry.type,
        size: entry.size,
        modified_at: new Date(entry.modifiedAt).toISOString(),
      })),
      total: all.length,
      next_offset: offset + limit < all.length ? offset + limit : null,
    };
  },
});

const searchFiles = tool({
  name: "search_files",
  title: "Search files",
  description:
    "Search below a directory of a running sandbox: for lines with a text or regular expression, for files by name, or " +
    "both. Use it to find something without reading every file. Returns path, line number and line of each match. " +
    "Binary files are skipped.",
  input: z
    .strictObject({
      ...handle,
      path: where.default("."),
      text: text(4096).min(1).optional().describe("What a line must contain."),
      regex: z.boolean().default(false).describe("text is an extended regular expression."),
      glob: text(256).min(1).optional().describe("What a file name must match: *.ts"),
      limit: z.int().min(1).max(1000).default(100).describe("Most matches to return."),
    })
    .refine(({ text: line, glob }) => line !== undefined || glob !== undefined, {
      error: "one of `text` and `glob` should be given.",
    }),
  output: z.strictObject({
    matches: z.array(
      z.strictObject({
        path: z.string(),
        line: z.union([z.int().min(1), none]).describe("Counted from 1; null when only the name was looked for."),
        text: z.union([z.string(), none]).describe("The line, cut when it is long."),
      }),
    ),
    has_more: z.boolean().describe("Whether there may be more matches: narrow the search, or raise limit."),
  }),
  hints: readOnly,
  async run({ sandbox, ...spec }, call) {
    const session = await sessionOf(call, { sandbox });
    const found = await call.core.files.search(call.caller, session.id, { ...spec, signal: call.signal });
    const matches = found.matches.map(({ path: file, line, text: content }) => ({
      path: file,
      line: line ?? null,
      text: content ?? null,
    }));
    return { matches, has_more: found.more };
  },
});

export const fileTools: Tool[] = [readFile, writeFile, listFiles, searchFiles];

function isBase64(value: string): boolean {
  return value.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(value);
}
