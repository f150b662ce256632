/** The events of a project: one page, or a stream of JSON lines until the caller disconnects. */

import type { Hono } from "hono";
import { z } from "zod";
import { json, parsed, queryParameters } from "../kit/http.ts";
import { ndjson } from "../kit/live.ts";
import { errorLine } from "./errors.ts";
import type { Dialect, Env } from "./sandkeep.ts";

const query = z.strictObject({
  project: z.string().min(1).max(128).optional(),
  after: z.string().min(1).max(128).optional(),
  follow: z.enum(["true", "false"]).optional(),
});

/** longest silence of a stream, in ms */
const patience = 15_000;

export function eventRoutes(app: Hono<Env>, { core, logError }: Dialect): void {
  app.get("/events", async (c) => {
    const { project, after, follow } = parsed(query, queryParameters(c));
    const owner = await core.access.owner(c.get("caller"), { project });
    if (follow !== "true") return json(await core.events.page(owner, after));
    const left = new AbortController();
    const events = await core.events.follow(owner, { after, signal: left.signal });
    return ndjson(
      (gone) => {
        gone.addEventListener("abort", () => left.abort(), { once: true });
        return events;
      },
      { failure: (error) => errorLine(error, logError), patience },
    );
  });
}
