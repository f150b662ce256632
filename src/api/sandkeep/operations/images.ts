/** Images: build them from a Dockerfile, list, export and delete them. */

import { arch } from "node:os";
import { z } from "zod";
import type { BuildProgress } from "../../../core/builds/builds.ts";
import { dockerfileIn } from "../../../core/builds/context-files.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { policyOfText } from "../../../core/network/policy-text.ts";
import type { BuildContext } from "../../../core/ports/image-builds.ts";
import { bodyBytes, byteBody, jsonOf, parsed } from "../../kit/http.ts";
import { ndjson } from "../../kit/live.ts";
import { loadedLater } from "../../kit/loaded-later.ts";
import { errorLine } from "../errors.ts";
import { answers, answersNothing, flag, operation, wholeNumber } from "../frame/operation.ts";
import { imageDetails, printImage, printImageDetails, printSizedImage, sizedImage } from "../resources/image.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Images";
const imageName = z.string().min(1).max(160);

const buildQuery = {
  name: imageName.optional().meta({ description: "Name of the image; without one the build only fills the cache" }),
  file: z
    .string()
    .min(1)
    .max(4096)
    .default("Dockerfile")
    .meta({ description: "Path of the Dockerfile in the archive" }),
  apart: flag()
    .default(false)
    .meta({ description: "Whether the Dockerfile belongs to this build only, so that COPY leaves it out" }),
  target: z.string().min(1).max(128).optional(),
  args: z
    .string()
    .max(64 << 10)
    .optional()
    .meta({ description: "Build arguments: a JSON object of strings" }),
  cache: flag().default(true),
  network: z
    .string()
    .min(1)
    .max(16_384)
    .optional()
    .meta({ description: "Network policy, such as `deny-all` or `registry.npmjs.org, *.github.com`" }),
  timeout: wholeNumber({ min: 1, max: 3600 }).optional().meta({ description: "Seconds" }),
};

const argRule = "the name of a build argument has only letters, digits and underscores, and no digit first.";
const buildArgs = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, argRule), z.string());

const buildLine = z
  .object({ type: z.string() })
  .catchall(z.unknown())
  .meta({ id: "BuildLine", description: "A step, its output, or with type `built` the image" });

/** longest silence of a stream, in ms */
const patience = 15_000;

const platform = `linux/${arch() === "arm64" ? "arm64" : "amd64"}`;

/** Many daemons never build, and need no memory for the reader of Dockerfiles. */
const dockerfiles = loadedLater(() => import("../../kit/dockerfile/dockerfile.ts"));

export function imageOperations({ core, logError }: Dialect) {
  return [
    operation({
      id: "buildImage",
      method: "POST",
      path: "/builds",
      tag,
      summary: "Builds an image from a Dockerfile and the files of a tar archive",
      description: "The build ends when you disconnect.",
      about: "project",
      query: buildQuery,
      bytes: "application/x-tar",
      answer: { status: 200, description: "What the build does", others: { "application/x-ndjson": buildLine } },
      async run({ owner, query, request }) {
        const args = parsed(buildArgs, jsonOf(query.args ?? "{}"));
        const { name, target } = query;
        const context = await core.builds.receive(owner, bodyBytes(request));
        const left = new AbortController();
        const build = await started(context, async () => {
          const text = await dockerfileIn(context, query.file, { apart: query.apart });
          const { readDockerfile } = await dockerfiles();
          const file = readDockerfile(text, { buildArgs: args, target, platform });
          const lines = await core.builds.build(owner, {
            name,
            context,
            ...file,
            useCache: query.cache,
            networkPolicy: query.network === undefined ? undefined : policyOfText(query.network),
            ...(query.timeout !== undefined && { timeout: query.timeout * 1000 }),
            signal: left.signal,
          });
          // Read the first line now: if the build cannot be planned, the status can still say so.
          return { lines, first: await lines.next() };
        });
        return ndjson(
          async function* (gone) {
            const reason = new SandkeepError("gone", "Cannot build the image: the client has gone");
            gone.addEventListener("abort", () => left.abort(reason), { once: true });
            if (!build.first.done) yield printed(build.first.value);
            for await (const line of build.lines) yield printed(line);
          },
          { failure: (error) => errorLine(error, logError), patience },
        );
      },
    }),
    operation({
      id: "listImages",
      method: "GET",
      path: "/images",
      tag,
      summary: "Lists the images that the team may use: its own and the host's",
      about: "team",
      answer: answers("The images", z.object({ images: z.array(sizedImage) })),
      async run({ caller }) {
        return { images: (await core.builds.listSized(caller)).map(printSizedImage) };
      },
    }),
    operation({
      id: "getImage",
      method: "GET",
      path: "/images/details",
      tag,
      summary: "Returns an image that the team may use, with its environment, its layers and how it was made",
      about: "team",
      query: { name: z.string().min(1).max(512).meta({ description: "As a create names it: also by digest" }) },
      answer: answers("The image", imageDetails),
      async run({ caller, query: { name } }) {
        return printImageDetails(await core.builds.get(caller, name));
      },
    }),
    operation({
      id: "deleteImage",
      method: "DELETE",
      path: "/images",
      tag,
      summary: "Deletes an image of the team",
      about: "team",
      query: { name: imageName },
      answer: answersNothing("It is gone"),
      async run({ caller, query: { name } }) {
        await core.builds.delete(caller, name);
        return undefined;
      },
    }),
    operation({
      id: "exportImage",
      method: "GET",
      path: "/images/archive",
      tag,
      summary: "Returns an image as an OCI archive",
      about: "team",
      query: { name: imageName },
      answer: { status: 200, description: "The archive", others: { "application/x-tar": undefined } },
      async run({ caller, query: { name }, request, connection }) {
        const archive = await core.builds.export(caller, name, request.signal);
        const bytes = archive[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>; // a stream of bytes
        const body = byteBody({ bytes, logError, connection });
        return new Response(body, { headers: { "content-type": "application/x-tar", "cache-control": "no-store" } });
      },
    }),
  ];
}

/** starts the build, which then owns the files; closes the files if the start fails */
async function started<T>(context: BuildContext, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    await context.close().catch(() => undefined);
    throw error;
  }
}

function printed(progress: BuildProgress): object {
  if (progress.type !== "built") return progress;
  return { type: progress.type, image: progress.image ? printImage(progress.image) : null };
}
