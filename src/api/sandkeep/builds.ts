/** Routes that build images from a Dockerfile, make images from snapshots, and list, delete and export images. */

import { arch } from "node:os";
import type { Hono } from "hono";
import { z } from "zod";
import type { BuildProgress } from "../../core/builds/builds.ts";
import { dockerfileIn } from "../../core/builds/context-files.ts";
import { policyOfText } from "../../core/network/policy-text.ts";
import type { BuildContext } from "../../core/ports/image-builds.ts";
import type { ImageInfo } from "../../core/ports/runtime.ts";
import { readDockerfile } from "../kit/dockerfile/dockerfile.ts";
import { bodyBytes, bodyText, byteBody, type Connection, json, jsonOf, parsed, queryParameters } from "../kit/http.ts";
import { ndjson } from "../kit/live.ts";
import { errorLine } from "./errors.ts";
import type { Dialect, Env } from "./sandkeep.ts";

const flag = z.enum(["true", "false"]);

const buildQuery = z.strictObject({
  project: z.string().min(1).max(128).optional(),
  /** name of the image */
  name: z.string().min(1).max(160).optional(),
  /** path of the Dockerfile among the files */
  file: z.string().min(1).max(4096).default("Dockerfile"),
  /** whether the Dockerfile belongs to this build only, so that COPY leaves it out */
  apart: flag.optional(),
  target: z.string().min(1).max(128).optional(),
  /** build arguments: a JSON object of strings */
  args: z
    .string()
    .max(64 << 10)
    .optional(),
  cache: flag.optional(),
  /** network policy, in the same syntax as in the limits of keys */
  network: z.string().min(1).max(16_384).optional(),
  /** seconds */
  timeout: z.coerce.number().int().min(1).max(3600).optional(),
});

const buildArgs = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string());

const snapshotBody = z.strictObject({ name: z.string().min(1).max(160) });
const imageQuery = z.strictObject({ name: z.string().min(1).max(160) });

/** longest silence of a stream, in ms */
const patience = 15_000;
const longestBody = 4096;

const platform = `linux/${arch() === "arm64" ? "arm64" : "amd64"}`;

export function buildRoutes(app: Hono<Env>, { core, logError }: Dialect): void {
  app.post("/builds", async (c) => {
    const query = parsed(buildQuery, queryParameters(c));
    const args = parsed(buildArgs, jsonOf(query.args ?? "{}"));
    const { name, target } = query;
    const owner = await core.access.owner(c.get("caller"), { project: query.project });
    const context = await core.builds.receive(owner, bodyBytes(c.req.raw));
    const left = new AbortController();
    const build = await started(context, async () => {
      const text = await dockerfileIn(context, query.file, { apart: query.apart === "true" });
      const file = readDockerfile(text, { buildArgs: args, target, platform });
      const lines = await core.builds.build(owner, {
        name,
        context,
        ...file,
        useCache: query.cache !== "false",
        networkPolicy: query.network === undefined ? undefined : policyOfText(query.network),
        ...(query.timeout !== undefined && { timeout: query.timeout * 1000 }),
        signal: left.signal,
      });
      // Read the first line now: if the build cannot be planned, the status can still say so.
      return { lines, first: await lines.next() };
    });
    return ndjson(
      async function* (gone) {
        gone.addEventListener("abort", () => left.abort(), { once: true });
        if (!build.first.done) yield printed(build.first.value);
        for await (const line of build.lines) yield printed(line);
      },
      { failure: (error) => errorLine(error, logError), patience },
    );
  });

  app.post("/snapshots/:snapshot/image", async (c) => {
    const { name } = parsed(snapshotBody, jsonOf(await bodyText(c.req.raw, longestBody)));
    const image = await core.builds.fromSnapshot(c.get("caller"), c.req.param("snapshot"), name);
    return json({ image: printImage(image) }, 201);
  });

  app.get("/images", async (c) => {
    const images = await core.builds.list(c.get("caller"));
    return json({ images: images.map((image) => ({ ...printImage(image), own: image.owner !== undefined })) });
  });

  app.delete("/images", async (c) => {
    const { name } = parsed(imageQuery, queryParameters(c));
    await core.builds.delete(c.get("caller"), name);
    return new Response(null, { status: 204 });
  });

  app.get("/images/archive", async (c) => {
    const { name } = parsed(imageQuery, queryParameters(c));
    const archive = await core.builds.export(c.get("caller"), name, c.req.raw.signal);
    const bytes = archive[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>; // a stream of bytes
    const body = byteBody({ bytes, logError, connection: c.env as Connection });
    return new Response(body, { headers: { "content-type": "application/x-tar", "cache-control": "no-store" } });
  });
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

function printImage({ name, digest, createdAt }: ImageInfo): object {
  return { name, digest: digest === undefined ? null : `sha256:${digest}`, createdAt };
}
