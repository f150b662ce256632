/** The tape of a sandbox: what happened in it over time, as numbers for equal parts of that time. */

import { z } from "zod";
import type { Tape } from "../../../core/sandboxes/tape.ts";
import { answers, operation, sandboxName, wholeNumber } from "../frame/operation.ts";
import { duration, sessionState, time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const mostBuckets = 600;

const count = z.int().min(0);
const bucket = z
  .object({
    at: time.meta({ description: "When it begins, in ms since 1970" }),
    commands: z.object({
      started: count,
      failed: count.meta({ description: "Those that ended with another exit code than 0" }),
      running: count.meta({ description: "Those that ran at any moment of it" }),
    }),
    egress: z.object({ allowed: count, refused: count }).meta({ description: "Outbound connections" }),
    snapshots: count,
    processors: z.number().nullable().meta({ description: "Busy processors on average; null if none were measured" }),
  })
  .meta({ id: "TapeBucket" });

const tape = z
  .object({
    from: time,
    to: time,
    step: duration.meta({ description: "Length of a bucket, in ms" }),
    sessions: z
      .array(
        z.object({
          id: z.string(),
          state: sessionState,
          vcpus: z.number(),
          startedAt: time,
          endedAt: time.nullable(),
        }),
      )
      .meta({ description: "Those that ran in this time, newest first, at most 100" }),
    snapshots: z
      .array(z.object({ id: z.string(), name: z.string().nullable(), createdAt: time }))
      .meta({ description: "Those of this time, newest first, at most 500" }),
    buckets: z.array(bucket).meta({ description: "Those in which something happened, oldest first" }),
    truncated: z
      .object({ sessions: z.boolean(), snapshots: z.boolean(), egress: z.boolean() })
      .meta({ description: "What is left out: older sessions and snapshots, and connections that no log has" }),
  })
  .meta({ id: "Tape" });

export function tapeOperations({ core }: Dialect) {
  return [
    operation({
      id: "getTape",
      method: "GET",
      path: "/sandboxes/{sandbox}/tape",
      tag: "Sandboxes",
      summary: "Returns what happened in a sandbox over time: sessions, commands, connections, snapshots, processors",
      description:
        "The time is divided into buckets of equal length. Times of connections are known to the second, and less " +
        "precisely in long sessions. One request reads at most 10,000 lines of each egress log, and the next one " +
        "continues there; `truncated.egress` says whether connections are missing.",
      about: "project",
      params: { sandbox: sandboxName },
      query: {
        from: wholeNumber().optional().meta({ description: "In ms since 1970; by default when it was made" }),
        to: wholeNumber().optional().meta({ description: "In ms since 1970; by default now" }),
        buckets: wholeNumber({ min: 1, max: mostBuckets })
          .optional()
          .meta({ description: "Most of them, default 300" }),
      },
      answer: answers("Its tape", tape),
      run: async ({ owner, params: { sandbox }, query: { buckets = 300, ...query } }) =>
        printTape(await core.tapes.of(owner, sandbox, { ...query, buckets })),
    }),
  ];
}

function printTape({ sessions, snapshots, buckets, ...rest }: Tape): z.input<typeof tape> {
  return {
    ...rest,
    sessions: sessions.map(({ id, state, vcpus, startedAt, createdAt, stoppedAt, abortedAt }) => {
      return { id, state, vcpus, startedAt: startedAt ?? createdAt, endedAt: stoppedAt ?? abortedAt ?? null };
    }),
    snapshots: snapshots.map(({ id, name = null, createdAt }) => ({ id, name, createdAt })),
    buckets: buckets.map(({ processors = null, ...each }) => ({ ...each, processors })),
  };
}
