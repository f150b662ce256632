/** What sandboxes do now, for lists that show many of them. */

import { z } from "zod";
import type { SandboxActivity } from "../../../core/sandboxes/activities.ts";
import { answers, operation, wholeNumber } from "../frame/operation.ts";
import { commandResource, printCommand } from "../resources/command.ts";
import { newName } from "../resources/sandbox.ts";
import { bytes, time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const mostNames = 100;
/** longest time that samples go back, and ms between two of them */
const longestBack = 3_600_000;
const sampleStep = 10_000;
const name = newName();

const activity = z
  .object({
    sandbox: z.string(),
    session: z.string().meta({ description: "Its current session" }),
    command: commandResource.nullable().meta({ description: "The last one of its current session" }),
    load: z
      .object({
        processors: z.number().meta({ description: "Busy processors since the request before, or in 100 ms" }),
        memory: bytes,
        processes: z.int(),
      })
      .nullable()
      .meta({ description: "null unless it runs" }),
    traffic: z
      .object({ bytesIn: bytes, bytesOut: bytes })
      .nullable()
      .meta({ description: "Of the current session, which `totals` of the sandbox has only once the session is over" }),
    samples: z
      .array(z.object({ at: time, processors: z.number() }))
      .nullable()
      .meta({ description: "Busy processors, oldest first; null unless it runs and `lately` asks for them" }),
  })
  .meta({ id: "Activity" });

export function activityOperations({ core, clock }: Dialect) {
  return [
    operation({
      id: "listActivity",
      method: "GET",
      path: "/activity",
      tag: "Sandboxes",
      summary: "Returns the last command of each of several sandboxes, their traffic, and the load of those that run",
      about: "project",
      query: {
        sandbox: z
          .union([name, z.array(name).max(mostNames)])
          .meta({ description: `Names, at most ${mostNames}; those that no sandbox has are left out` }),
        lately: wholeNumber({ min: 1000, max: longestBack })
          .optional()
          .meta({ description: "Also returns samples of the last so many ms, at most one in 10 seconds" }),
      },
      answer: answers("What they do", z.object({ activity: z.array(activity) })),
      async run({ owner, query: { sandbox, lately } }) {
        const back = lately === undefined ? undefined : { from: clock() - lately, step: sampleStep };
        return { activity: (await core.activities.of(owner, [sandbox].flat(), back)).map(printActivity) };
      },
    }),
  ];
}

function printActivity(told: SandboxActivity): z.input<typeof activity> {
  const { name: sandbox, sessionId: session, command, load, traffic = null, samples } = told;
  return {
    sandbox,
    session,
    command: command ? printCommand(command) : null,
    load: load ? { processors: load.processors, memory: load.memory, processes: load.processes } : null,
    traffic,
    samples: samples ? samples.map(({ at, processors }) => ({ at, processors })) : null,
  };
}
