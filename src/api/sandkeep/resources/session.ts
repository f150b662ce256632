/** A session: one run of a sandbox, from boot to stop. */

import { z } from "zod";
import type { Session } from "../../../core/model/sandbox.ts";
import { networkPolicy, printPolicy } from "./network-policy.ts";
import { bytes, duration, endCause, memory, sessionState, time } from "./values.ts";

export const sessionResource = z
  .object({
    id: z.string(),
    sandbox: z.string().meta({ description: "Name of its sandbox" }),
    sandboxId: z.string(),
    projectId: z.string(),
    state: sessionState,
    vcpus: z.number(),
    memory,
    timeout: duration,
    lifetime: z.enum(["fixed", "idle", "unlimited"]).meta({ description: "How its time is counted" }),
    persistent: z.boolean().meta({ description: "Whether its files are kept when it ends" }),
    region: z.string(),
    runtime: z.string().nullable(),
    cwd: z.string().meta({ description: "Where commands start" }),
    user: z.string(),
    networkPolicy,
    sourceSnapshotId: z.string().nullable().meta({ description: "The snapshot that it started from" }),
    createdAt: time,
    startedAt: time.nullable(),
    expiresAt: time.nullable().meta({ description: "When it is stopped unless extended; only while it runs" }),
    pausedAt: time.nullable(),
    endedAt: time.nullable(),
    endCause: endCause.nullable(),
    endReason: z.string().nullable().meta({ description: "A sentence" }),
    use: z
      .object({ durationMs: duration, cpuMs: duration, bytesIn: bytes, bytesOut: bytes })
      .nullable()
      .meta({ description: "What it used, once it has ended" }),
  })
  .meta({ id: "Session" });

export function printSession(session: Session): z.input<typeof sessionResource> {
  const { duration: ran } = session;
  return {
    id: session.id,
    sandbox: session.sandboxName,
    sandboxId: session.sandboxId,
    projectId: session.projectId,
    state: session.state,
    vcpus: session.vcpus,
    memory: session.memory,
    timeout: session.timeout,
    lifetime: session.lifetime ?? "fixed",
    persistent: session.persistent,
    region: session.region,
    runtime: session.runtime ?? null,
    cwd: session.cwd,
    user: session.user,
    networkPolicy: printPolicy(session.networkPolicy),
    sourceSnapshotId: session.sourceSnapshotId ?? null,
    createdAt: session.createdAt,
    startedAt: session.startedAt ?? null,
    expiresAt: session.expiresAt ?? null,
    pausedAt: session.pausedAt ?? null,
    endedAt: session.stoppedAt ?? session.abortedAt ?? null,
    endCause: session.endCause ?? null,
    endReason: session.endReason ?? null,
    use:
      ran === undefined
        ? null
        : {
            durationMs: ran,
            cpuMs: session.cpuMs ?? 0,
            bytesIn: session.ingressBytes ?? 0,
            bytesOut: session.egressBytes ?? 0,
          },
  };
}
