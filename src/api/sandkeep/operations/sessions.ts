/** Sessions: the runs of sandboxes. List them, stop, pause and extend them, capture their files, read their use. */

import { z } from "zod";
import { answers, flag, operation, wholeNumber } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { printSession, sessionResource } from "../resources/session.ts";
import { printSnapshot, snapshotResource } from "../resources/snapshot.ts";
import { bytes, duration, expiration, time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Sessions";
const params = { session: idOf("session") };
/** longest that a stop waits for commands, in ms: other requests wait a minute for the end of a session */
const longestGrace = 50_000;

const sampleResource = z
  .object({
    at: time,
    processors: z.number().meta({ description: "Average number of busy processors since the sample before" }),
    memory: bytes,
    disk: bytes.nullable(),
    processes: z.int(),
    bytesIn: bytes.meta({ description: "Bytes received since the session began" }),
    bytesOut: bytes.meta({ description: "Bytes sent since the session began" }),
  })
  .meta({ id: "UsageSample" });

export function sessionOperations({ core, limits }: Dialect) {
  return [
    operation({
      id: "listSessions",
      method: "GET",
      path: "/sessions",
      tag,
      summary: "Lists the sessions of a project, also those of deleted sandboxes",
      about: "project",
      query: {
        ...pageQuery,
        sandbox: z.string().min(1).max(256).optional().meta({ description: "Name of their sandbox" }),
        open: flag().default(false).meta({ description: "Whether to leave out sessions that have ended" }),
      },
      answer: answers("A page of sessions", z.object({ sessions: z.array(sessionResource), next })),
      async run({ owner, query: { sandbox, open, ...page } }) {
        const filter = { ...(sandbox !== undefined && { sandboxName: sandbox }), ...(open && { open }) };
        return printPage("sessions", await core.sessions.list(owner, { ...pageOf(page), ...filter }), printSession);
      },
    }),
    operation({
      id: "getSession",
      method: "GET",
      path: "/sessions/{session}",
      tag,
      summary: "Returns a session",
      about: "session",
      params,
      answer: answers("The session", sessionResource),
      run: async ({ caller, session }) => printSession(await core.sessions.get(caller, session)),
    }),
    operation({
      id: "stopSession",
      method: "POST",
      path: "/sessions/{session}/stop",
      tag,
      summary: "Stops a session, and keeps its files if it is persistent",
      about: "session",
      params,
      query: {
        grace: wholeNumber({ max: longestGrace })
          .optional()
          .meta({
            description:
              "Milliseconds that its commands have to end by themselves, by default 0. The image's command gets the " +
              "image's STOPSIGNAL, others get SIGTERM",
          }),
      },
      answer: answers("The session, which has ended", sessionResource),
      run: async ({ caller, session, query: { grace } }) =>
        printSession((await core.sessions.stop(caller, session, { grace })).session),
    }),
    operation({
      id: "pauseSession",
      method: "POST",
      path: "/sessions/{session}/pause",
      tag,
      summary: "Pauses a session with its memory and its files",
      description: "Resume its sandbox to continue it. A host without a freezer keeps the files, and the session ends.",
      about: "session",
      params,
      answer: answers("The session", sessionResource),
      run: async ({ caller, session }) => printSession(await core.sessions.pause(caller, session)),
    }),
    operation({
      id: "extendSession",
      method: "POST",
      path: "/sessions/{session}/extend",
      tag,
      summary: "Lets a session run longer",
      about: "session",
      params,
      body: z.strictObject({
        duration: z.int().min(1000).max(limits.timeout).meta({ description: "Milliseconds beyond its present end" }),
      }),
      answer: answers("The session", sessionResource),
      run: async ({ caller, session, body }) =>
        printSession(await core.sessions.extend(caller, session, body.duration)),
    }),
    operation({
      id: "createSnapshot",
      method: "POST",
      path: "/sessions/{session}/snapshots",
      tag,
      summary: "Captures the files of a session, which runs on",
      about: "session",
      params,
      body: z.strictObject({
        name: z.string().min(1).max(128).optional(),
        expiration: expiration.optional(),
      }),
      answer: answers("The snapshot", snapshotResource, 201),
      run: async ({ caller, session, body }) =>
        printSnapshot((await core.sessions.checkpoint(caller, session, body)).snapshot),
    }),
    operation({
      id: "getUsage",
      method: "GET",
      path: "/sessions/{session}/usage",
      tag,
      summary: "Returns what a session has used so far, or up to its end",
      about: "session",
      params,
      answer: answers(
        "Its use",
        z.object({ durationMs: duration, cpuMs: duration, bytesIn: bytes, bytesOut: bytes }).meta({ id: "Usage" }),
      ),
      async run({ caller, session }) {
        const { durationMs, cpuMs, ingressBytes, egressBytes } = await core.sessions.usage(caller, session);
        return { durationMs, cpuMs, bytesIn: ingressBytes, bytesOut: egressBytes };
      },
    }),
    operation({
      id: "getLoad",
      method: "GET",
      path: "/sessions/{session}/load",
      tag,
      summary: "Returns what a running session uses now",
      about: "session",
      params,
      answer: answers(
        "Its load",
        z
          .object({
            processors: z.number().meta({ description: "Busy processors since the request before, or in 100 ms" }),
            memory: bytes,
            cache: bytes.nullable().meta({ description: "Bytes of it that the kernel can reclaim" }),
            peakMemory: bytes,
            disk: bytes.nullable(),
            processes: z.int(),
            outOfMemoryKills: z.int(),
          })
          .meta({ id: "Load" }),
      ),
      async run({ caller, session }) {
        const load = await core.sessions.load(caller, session);
        const { processors, memory, cache = null, peakMemory, disk = null, processes, outOfMemoryKills } = load;
        return { processors, memory, cache, peakMemory, disk, processes, outOfMemoryKills };
      },
    }),
    operation({
      id: "listUsageSamples",
      method: "GET",
      path: "/sessions/{session}/usage/samples",
      tag,
      summary: "Returns what a session used over time, oldest first",
      description:
        "The daemon takes a sample every 2 seconds, and less often in long sessions and with more than 40 sandboxes. It keeps at most 240 of a session.",
      about: "session",
      params,
      query: {
        from: wholeNumber().optional().meta({ description: "Only samples from this time on, in ms since 1970" }),
        to: wholeNumber().optional().meta({ description: "Only samples up to this time" }),
        step: wholeNumber({ min: 1000 }).optional().meta({ description: "At most one sample in this time, in ms" }),
      },
      answer: answers("Its samples", z.object({ samples: z.array(sampleResource) })),
      async run({ caller, session, query }) {
        const samples = await core.sessions.samples(caller, session, query);
        return {
          samples: samples.map(({ at, processors, memory, disk = null, processes, network }) => {
            return { at, processors, memory, disk, processes, bytesIn: network.received, bytesOut: network.sent };
          }),
        };
      },
    }),
  ];
}
