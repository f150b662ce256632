/**
 * The events of a project: one page, or a stream until the caller disconnects, as JSON lines or as server-sent events.
 * The id of a server-sent event is its cursor, so a client that reconnects with Last-Event-ID continues after it.
 */

import { z } from "zod";
import type { Published } from "../../../core/events/events.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { ndjson, serverSentEvents } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { answers, flag, operation } from "../frame/operation.ts";
import { time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

/** the first words of the types of events */
export const topics = [
  "sandbox",
  "session",
  "command",
  "files",
  "snapshot",
  "policy",
  "drive",
  "image",
  "webhook",
] as const;

const event = z
  .object({
    type: z.string().meta({ description: "Such as `session.running`; `gap` if events before it are lost" }),
    cursor: z.string().meta({ description: "`after` with which to continue after this event" }),
    at: time,
  })
  .catchall(z.unknown())
  .meta({ id: "Event" });

/** longest silence of a stream, in ms */
const patience = 15_000;

export function eventOperations({ core, logError, ending }: Dialect) {
  return [
    operation({
      id: "readEvents",
      method: "GET",
      path: "/events",
      tag: "Events",
      summary: "Returns what happened in a project, or streams what happens",
      description:
        "With `Accept: text/event-stream` the answer is a stream of server-sent events; the id of each is its cursor. " +
        "With `follow=true` it is a stream of JSON lines. After a `gap` event, read the lists again.",
      about: "project",
      query: {
        after: z
          .string()
          .min(1)
          .max(128)
          .optional()
          .meta({ description: "Cursor of the last event that you have; a stream without one begins now" }),
        follow: flag().default(false),
        topics: z
          .string()
          .max(256)
          .optional()
          .meta({ description: `Only events of these kinds, separated by commas: ${topics.join(", ")}` }),
      },
      answer: {
        ...answers("A page", z.object({ events: z.array(event), next: z.string() })),
        others: { "text/event-stream": event, "application/x-ndjson": event },
      },
      async run({ owner, query, request: { headers } }) {
        const isSse = /\btext\/event-stream\b/.test(headers.get("accept") ?? "");
        const after = query.after ?? (isSse ? (headers.get("last-event-id") ?? undefined) : undefined);
        const isWanted = wantedBy(query.topics);
        if (!isSse && !query.follow) {
          const { events, next } = await core.events.page(owner, after);
          return { events: events.filter(isWanted).map((each) => ({ ...each })), next };
        }
        const left = new AbortController();
        const events = await core.events.follow(owner, { after, signal: left.signal });
        const lines = (gone: AbortSignal) => {
          gone.addEventListener("abort", () => left.abort(), { once: true });
          return selected(events, isWanted);
        };
        const live = { failure: (error: unknown) => errorLine(error, logError), patience, ending };
        return isSse
          ? serverSentEvents(lines, ({ cursor, type }) => ({ id: cursor, event: type }), live)
          : ndjson(lines, live);
      },
    }),
  ];
}

function wantedBy(list: string | undefined): (event: Published) => boolean {
  if (list === undefined) return () => true;
  const wanted = list.split(",").map((word) => word.trim());
  const unknown = wanted.find((word) => !topics.some((topic) => topic === word));
  if (unknown !== undefined) {
    const words = `Invalid request: \`topics\` should be some of ${topics.join(", ")}, and "${unknown}" is not.`;
    throw new SandkeepError("invalid", words);
  }
  return ({ type }) => type === "gap" || wanted.includes(type.split(".")[0] ?? "");
}

async function* selected(
  events: AsyncIterable<Published>,
  isWanted: (event: Published) => boolean,
): AsyncGenerator<Published> {
  for await (const each of events) if (isWanted(each)) yield each;
}
