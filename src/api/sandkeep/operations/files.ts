/** Files of a running session: list, read, write, move, remove and watch them, and tar archives both ways. */

import type { Readable } from "node:stream";
import { z } from "zod";
import type { FileChange } from "../../../core/ports/runtime.ts";
import { byteRange } from "../../kit/byte-ranges.ts";
import { bodyBytes, byteBody, type Connection, json } from "../../kit/http.ts";
import { ndjson } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { answers, answersNothing, flag, operation, wholeNumber } from "../frame/operation.ts";
import { idOf } from "../frame/router.ts";
import { fileChange, fileResource, printFile } from "../resources/file.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Files";
const params = { session: idOf("session") };
const path = z.string().min(1).max(4096).meta({ description: "Absolute, or relative to the user's home" });
const user = z.string().min(1).max(256).optional().meta({ description: "A user of the sandbox; by default its own" });
const place = { path, user };
const binary = "application/octet-stream";
const tar = "application/x-tar";
const gzipped = "application/gzip";
/** most entries of a list */
const mostListed = 10_000;

export function fileOperations({ core, logError, limits, ending }: Dialect) {
  const { userFiles } = core;
  const stream = (bytes: Readable, connection: Connection) =>
    byteBody({ bytes: bytes[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>, logError, connection });

  return [
    operation({
      id: "listFiles",
      method: "GET",
      path: "/sessions/{session}/files",
      tag,
      summary: "Lists a directory, and with `depth` those below it",
      description:
        "More than 10,000 entries are refused: ask for less `depth`, or run `find` in the sandbox and read its output, " +
        "which may be as long as you like. `readArchive` has a directory of any size.",
      about: "session",
      params,
      query: { path: path.default("."), user, depth: wholeNumber({ min: 1, max: 32 }).optional() },
      answer: answers("Its files", z.object({ files: z.array(fileResource) })),
      async run({ caller, session, query: { depth = 1, ...where } }) {
        const files = await userFiles.list(caller, session, where, { depth, most: mostListed });
        return { files: files.map(printFile) };
      },
    }),
    operation({
      id: "statFile",
      method: "GET",
      path: "/sessions/{session}/files/stat",
      tag,
      summary: "Describes a file, a directory or a symlink",
      about: "session",
      params,
      query: place,
      answer: answers("The file", fileResource),
      run: async ({ caller, session, query }) => printFile(await userFiles.stat(caller, session, query)),
    }),
    operation({
      id: "readFile",
      method: "GET",
      path: "/sessions/{session}/files/content",
      tag,
      summary: "Reads a file, or with a `Range` header a part of it (206)",
      about: "session",
      params,
      query: place,
      answer: { status: 200, description: "Its bytes", others: { [binary]: undefined } },
      async run({ caller, session, query, request, connection }) {
        const { file, bytes } = await userFiles.read(caller, session, query);
        const headers = { "content-type": binary, "accept-ranges": "bytes", "cache-control": "no-store" };
        const range = byteRange(request.headers.get("range"), file.size);
        if (range === "unsatisfiable") {
          const message = `Cannot read "${file.path}": it has ${file.size} bytes, and none where they are asked for`;
          const told = { "content-range": `bytes */${file.size}` };
          return json({ error: { code: "invalid", message, field: "Range" } }, 416, told);
        }
        if (!range) return new Response(stream(bytes(), connection), { headers });
        const { from, to } = range;
        const told = { "content-range": `bytes ${from}-${to - 1}/${file.size}`, "content-length": `${to - from}` };
        const body = stream(bytes({ offset: from, length: to - from }), connection);
        return new Response(body, { status: 206, headers: { ...headers, ...told } });
      },
    }),
    operation({
      id: "writeFile",
      method: "PUT",
      path: "/sessions/{session}/files/content",
      tag,
      summary: "Writes a file, in place of one that is there, and makes missing directories",
      about: "session",
      params,
      query: place,
      bytes: binary,
      answer: answers("The file", fileResource),
      async run({ caller, session, query, request }) {
        await userFiles.write(caller, session, query, bodyBytes(request));
        return printFile(await userFiles.stat(caller, session, query));
      },
    }),
    operation({
      id: "makeDirectory",
      method: "POST",
      path: "/sessions/{session}/files/directories",
      tag,
      summary: "Makes a directory, and those above it",
      about: "session",
      params,
      body: z.strictObject(place),
      answer: answers("The directory", fileResource, 201),
      run: async ({ caller, session, body }) => printFile(await userFiles.makeDirectory(caller, session, body)),
    }),
    operation({
      id: "moveFile",
      method: "POST",
      path: "/sessions/{session}/files/move",
      tag,
      summary: "Moves a file or a directory",
      about: "session",
      params,
      body: z.strictObject({ from: path, to: path, user }),
      answer: answers("The file in its new place", fileResource),
      async run({ caller, session, body: { from, to, user: name } }) {
        return printFile(await userFiles.move(caller, session, { path: from, user: name }, to));
      },
    }),
    operation({
      id: "removeFile",
      method: "DELETE",
      path: "/sessions/{session}/files",
      tag,
      summary: "Removes a file, or a directory with everything in it",
      about: "session",
      params,
      query: place,
      answer: answersNothing("Nothing is there"),
      async run({ caller, session, query }) {
        await userFiles.remove(caller, session, query);
        return undefined;
      },
    }),
    operation({
      id: "watchFiles",
      method: "GET",
      path: "/sessions/{session}/files/watch",
      tag,
      summary: "Reports changes below a directory as lines of JSON, until you disconnect",
      about: "session",
      params,
      query: { ...place, recursive: flag().default(false) },
      answer: { status: 200, description: "The changes", others: { "application/x-ndjson": fileChange } },
      async run({ caller, session, query: { recursive, ...where } }) {
        const left = new AbortController();
        const { changes } = await userFiles.watch(caller, session, where, { recursive, signal: left.signal });
        return ndjson(
          (gone) => {
            gone.addEventListener("abort", () => left.abort(), { once: true });
            return printed(changes);
          },
          { failure: (error) => errorLine(error, logError), patience: limits.patience, ending },
        );
      },
    }),
    operation({
      id: "readArchive",
      method: "GET",
      path: "/sessions/{session}/files/archive",
      tag,
      summary: "Packs a file or a directory into a tar archive",
      about: "session",
      params,
      query: { ...place, gzip: flag().default(false) },
      answer: {
        status: 200,
        description: "The archive; names in it are relative to the path",
        others: { [tar]: undefined, [gzipped]: undefined },
      },
      async run({ caller, session, query: { gzip, ...where }, connection }) {
        const archive = await userFiles.archive(caller, session, where, { gzip });
        const type = gzip ? gzipped : tar;
        return new Response(stream(archive, connection), {
          headers: { "content-type": type, "cache-control": "no-store" },
        });
      },
    }),
    operation({
      id: "writeArchive",
      method: "PUT",
      path: "/sessions/{session}/files/archive",
      tag,
      summary: "Unpacks a tar archive, gzipped or not, below a directory",
      about: "session",
      params,
      query: place,
      bytes: tar,
      answer: answersNothing("It is unpacked"),
      async run({ caller, session, query, request }) {
        await userFiles.extract(caller, session, query, bodyBytes(request));
        return undefined;
      },
    }),
  ];
}

async function* printed(changes: AsyncIterable<FileChange>): AsyncGenerator<z.input<typeof fileChange>> {
  for await (const { kind, path: changed, to = null, directory } of changes)
    yield { kind, path: changed, to, directory };
}
