/** What sandboxes do now, for lists that show many of them. */

import { z } from "zod";
import type { SandboxActivity } from "../../../core/sandboxes/activities.ts";
import { answers, operation } from "../frame/operation.ts";
import { commandResource, printCommand } from "../resources/command.ts";
import { newName } from "../resources/sandbox.ts";
import { bytes } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const mostNames = 100;
const name = newName();

const activity = z
  .object({
    sandbox: z.string(),
    command: commandResource.nullable().meta({ description: "The last one of its current session" }),
    load: z
      .object({
        processors: z.number().meta({ description: "Busy processors since the request before, or in 100 ms" }),
        memory: bytes,
        processes: z.int(),
      })
      .nullable()
      .meta({ description: "null unless it runs" }),
  })
  .meta({ id: "Activity" });

export function activityOperations({ core }: Dialect) {
  return [
    operation({
      id: "listActivity",
      method: "GET",
      path: "/activity",
      tag: "Sandboxes",
      summary: "Returns the last command of each of several sandboxes, and the load of those that run",
      about: "project",
      query: {
        sandbox: z
          .union([name, z.array(name).max(mostNames)])
          .meta({ description: `Names, at most ${mostNames}; those that no sandbox has are left out` }),
      },
      answer: answers("What they do", z.object({ activity: z.array(activity) })),
      run: async ({ owner, query: { sandbox } }) => ({
        activity: (await core.activities.of(owner, [sandbox].flat())).map(printActivity),
      }),
    }),
  ];
}

function printActivity({ name: sandbox, command, load }: SandboxActivity): z.input<typeof activity> {
  return {
    sandbox,
    command: command ? printCommand(command) : null,
    load: load ? { processors: load.processors, memory: load.memory, processes: load.processes } : null,
  };
}
