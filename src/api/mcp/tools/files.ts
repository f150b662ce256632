/** Tools for files of a running sandbox: read, write, list, search. Relative paths begin at the sandbox's directory. */

import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { resolvePath } from "../../../core/files.ts";
import { handle, sessionOf } from "../handle.ts";
import { unfinished } from "../output.ts";
import { path, text } from "../schema.ts";
import { destroys, reads, type Tool, tool } from "../tool.ts";

const where = path.describe("Absolute, or relative to the sandbox's directory.");
const none = z.null();

const readFile = tool({
  name: "read_file",
  title: "Read a file",
  description:
    "Reads a file of a sandbox, or the part of it from offset on. Text comes as it is, anything else as base64: " +
    "encoding says which. To read on, pass next_offset as offset.",
  input: z.strictObject({
    ...handle,
    path: where,
    offset: z.int().min(0).default(0).describe("Byte to begin with. Default 0."),
    max_bytes: z
      .int()
      .min(1024)
      .max(1 << 20)
      .default(256 << 10)
      .describe("Most bytes of the file in this answer. Default 262144."),
  }),
  output: z.strictObject({
    path: z.string(),
    content: z.string(),
    encoding: z.enum(["utf-8", "base64"]),
    size: z.int().min(0).describe("Bytes of the whole file."),
    next_offset: z.union([z.int().min(0), none]).describe("Where to read on; null at the end of the file."),
  }),
  hints: reads,
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
    "Writes a file in a sandbox, with the directories on the way. A file that is there is replaced, unless append " +
    "is true.",
  input: z
    .strictObject({
      ...handle,
      path: where,
      content: z
        .string()
        .max(3 << 20)
        .refine((value) => value.isWellFormed(), "`content` has half a character in it.")
        .describe("The text, or bytes as base64."),
      encoding: z.enum(["utf-8", "base64"]).default("utf-8").describe("How content is written. Default utf-8."),
      append: z.boolean().default(false).describe("Whether it is added to the end of what is there."),
      executable: z.boolean().default(false).describe("Whether a file that is made may be executed."),
    })
    .refine(({ content, encoding }) => encoding === "utf-8" || isBase64(content), "`content` is not base64."),
  output: z.strictObject({ path: z.string(), size: z.int().min(0).describe("Bytes of the file now.") }),
  hints: destroys,
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
  description: "Lists the entries of a directory in a sandbox by name. To go on, pass next_offset as offset.",
  input: z.strictObject({
    ...handle,
    path: where.default("."),
    offset: z.int().min(0).default(0).describe("How many entries to pass over. Default 0."),
    limit: z.int().min(1).max(1000).default(200).describe("Most entries in this answer. Default 200."),
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
    next_offset: z.union([z.int().min(0), none]).describe("Where to go on; null after the last entry."),
  }),
  hints: reads,
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
    "Finds files below a directory of a sandbox: by a text or regular expression in their lines, by their names, or " +
    "by both. Binary files are not looked into.",
  input: z
    .strictObject({
      ...handle,
      path: where.default("."),
      text: text(4096).min(1).optional().describe("What a line has in it."),
      regex: z.boolean().default(false).describe("Whether text is an extended regular expression."),
      glob: text(256).min(1).optional().describe("What a file's name is like: *.ts"),
      limit: z.int().min(1).max(1000).default(100).describe("Most matches in this answer. Default 100."),
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
    has_more: z.boolean().describe("Whether there may be more: search below a narrower path, or raise the limit."),
  }),
  hints: reads,
  async run({ sandbox, project_id, ...spec }, call) {
    const session = await sessionOf(call, { sandbox, project_id });
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
