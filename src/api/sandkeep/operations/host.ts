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
    processors: z.object({
      count: z.int().meta({ description: "Processors of the host" }),
      busy: z.number().min(0).meta({ description: "How many of them were busy in the last seconds, on average" }),
      load: z
        .number()
        .min(0)
        .meta({ description: "Programs that ran or waited to run in the last minute, on average" }),
    }),
    memory: z
      .object({ total: bytes, available: bytes })
      .meta({ description: "Memory of the host, and how much of it programs can still get" }),
    sessions: z.record(z.string(), z.int()).meta({ description: "Sessions that are not over, by their state" }),
    disk: z
      .object({
        places: z.array(z.object({ place: z.enum(["disk", "store"]), total: bytes, free: bytes, reserve: bytes })),
        isGrowthStopped: z.boolean(),
      })
      .nullable(),
    openFiles: load,
    tcpMemory: load,
  })
  .meta({ id: "Capacity" });

const finding = z.object({
  name: z.string(),
  state: z.enum(["ok", "warning", "missing"]).meta({
    description: "`missing`: sandboxes cannot run. `warning`: they run with less",
  }),
  detail: z.string(),
  fix: z.string().nullable().meta({ description: "The command that fixes it, for the host's root" }),
});

const diagnosis = z
  .object({
    ok: z.boolean().meta({ description: "Whether sandboxes can run" }),
    isolation: z.array(z.string()).meta({ description: "What isolates a sandbox on this host" }),
    findings: z.array(finding),
  })
  .meta({ id: "Diagnosis" });

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
        const vitals = await core.host.vitals(caller);
        const { machines, processors, memory, sessions, disk = null, openFiles, tcpMemory } = vitals;
        return { machines, processors, memory, sessions, disk, openFiles, tcpMemory };
      },
    }),
    operation({
      id: "getDiagnosis",
      method: "GET",
      path: "/host/doctor",
      tag,
      summary: "Examines the host, as `sandkeep doctor` does; needs a key of the team that runs the daemon",
      description:
        "It takes a second or more, since it looks at the host's files that sandboxes see. It changes nothing.",
      about: "host",
      answer: answers("What is fine, what limits sandboxes, and what prevents them", diagnosis),
      async run({ caller }) {
        const { ok, isolation, findings } = await core.host.diagnosis(caller);
        return { ok, isolation, findings: findings.map(({ fix = null, ...found }) => ({ ...found, fix })) };
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
