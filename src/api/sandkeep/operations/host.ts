/** What concerns the whole daemon, for its operator. */

import { z } from "zod";
import { answers, operation } from "../frame/operation.ts";
import { bytes } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Host";

const upgradeResult = z.object({
  replaced: z.object({ launcher: z.int().optional(), egress: z.int().optional() }),
  waiting: z.object({
    launcher: z.object({ pid: z.int(), sandboxes: z.array(z.string()) }).optional(),
    egress: z.object({ pid: z.int(), needsLauncher: z.boolean() }).optional(),
  }),
});

const load = z.object({ now: z.number(), most: z.number() });

const capacity = z
  .object({
    machines: z.object({ running: z.int(), paused: z.int(), hot: z.int(), warm: z.int() }),
    sessions: z.record(z.string(), z.int()).meta({ description: "Sessions that are not over, by their state" }),
    disk: z
      .object({
        places: z.array(z.object({ place: z.enum(["disk", "store"]), free: bytes, reserve: bytes })),
        isGrowthStopped: z.boolean(),
      })
      .nullable(),
    openFiles: load,
    tcpMemory: load,
  })
  .meta({ id: "Capacity" });

export function hostOperations({ core }: Dialect) {
  return [
    operation({
      id: "getCapacity",
      method: "GET",
      path: "/host/capacity",
      tag,
      summary: "Returns what the host has and uses; needs a key of the team that runs the daemon",
      about: "host",
      answer: answers("The host's numbers", capacity),
      async run({ caller }) {
        const { machines, sessions, disk = null, openFiles, tcpMemory } = await core.host.vitals(caller);
        return { machines, sessions, disk, openFiles, tcpMemory };
      },
    }),
    operation({
      id: "upgradeHost",
      method: "POST",
      path: "/upgrade",
      tag,
      summary: "Replaces processes of an earlier build on which no sandbox runs",
      about: "host",
      answer: answers("What was replaced, and what waits for sandboxes", upgradeResult),
      run: async ({ caller }) => core.host.upgrade(caller),
    }),
  ];
}
