/**
 * What sandboxes use of processors, memory and disk on E2B's API, now and over time, and how many of a team's run. The
 * core keeps the samples (core/sessions/samples.ts). What is used at this moment follows them if the last one is old.
 */

import type { Hono } from "hono";
import { z } from "zod";
import type { Owner, Session } from "../../../core/model/sandbox.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import type { Concurrency } from "../../../core/sessions/concurrency.ts";
import { json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { type Dialect, type E2bContext, type Env, queryOf, sandboxCalled, sandboxOf } from "../request.ts";
import { number } from "../schemas.ts";
import * as wire from "../wire.ts";

/** age of the last sample, in ms, from which the present moment is an entry of its own; clients poll much more often */
const fresh = 5000;
/** sessions of a sandbox whose samples are shown: each resume from files begins one */
const mostSessions = 20;
/** a team's numbers: the time up to now that is shown by default, the longest, the most entries, and their least distance in ms */
const usualTime = 24 * 3_600_000;
const longestTime = 31 * 24 * 3_600_000;
const mostSteps = 288;
const leastStep = 5000;
/** of all dates, since 1970 */
const lastSecond = 8_640_000_000_000;

const unixSeconds = number(z.int().min(0).max(lastSecond)).optional();
const teamQuery = z.strictObject({ start: unixSeconds, end: unixSeconds });
const teamMaximumQuery = teamQuery.extend({ metric: z.enum(["concurrent_sandboxes", "sandbox_start_rate"]) });

export function metricRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, clock } = dialect;

  app.get("/sandboxes/metrics", async (c) => {
    const { sandbox_ids: ids } = queryOf(c, schemas.allMetricsQuery);
    const found = await Promise.all(
      [...new Set(ids)].map(async (id) => {
        const booted = await sandboxCalled(dialect, c.get("owner"), id).catch(() => undefined);
        const metric = booted && (await presentOf(c.get("owner"), booted.session));
        return metric ? [[id, metric] as const] : [];
      }),
    );
    return json({ sandboxes: Object.fromEntries(found.flat()) });
  });

  app.get("/sandboxes/:id/metrics", async (c) => {
    const { start = 0, end } = queryOf(c, schemas.metricsQuery);
    const booted = await sandboxOf(c, dialect);
    const owner = c.get("owner");
    // A second of E2B's is whole: what happened within it counts.
    const [from, to] = [start * 1000, end === undefined ? Number.POSITIVE_INFINITY : end * 1000 + 999];
    const past = await pastOf(owner, booted, from, to);
    const now = clock();
    const isPresentNew = Math.max(past.at(-1)?.at ?? 0, from) <= now - fresh && now <= to;
    const present = isPresentNew ? await presentOf(owner, booted.session) : undefined;
    return json([...past.map(({ metric }) => metric), ...(present ? [present] : [])]);
  });

  app.get("/teams/:id/metrics", async (c) => {
    const { steps, step } = await stepsOf(c, queryOf(c, teamQuery));
    return json(
      steps.map(({ at, running, started }) => ({
        ...times(at),
        concurrentSandboxes: running,
        sandboxStartRate: rate(started, step),
      })),
    );
  });

  app.get("/teams/:id/metrics/max", async (c) => {
    const { metric, ...query } = queryOf(c, teamMaximumQuery);
    const { steps, step } = await stepsOf(c, query);
    const wanted = ({ running, started }: Concurrency) =>
      metric === "concurrent_sandboxes" ? running : rate(started, step);
    const highest = steps.reduce((best, each) => (wanted(each) > wanted(best) ? each : best));
    return json({ ...times(highest.at), value: wanted(highest) });
  });

  /** the samples of every session that the sandbox had, oldest first */
  async function pastOf(owner: Owner, { sandbox, session }: Booted, from: number, to: number) {
    const page = { limit: mostSessions, order: "desc" } as const;
    const { items } = await core.sessions.ofSandbox(owner, sandbox.name, page);
    const sessions = items.length === 0 ? [session] : items.toReversed();
    const samples = await Promise.all(
      sessions.map(async (each) => {
        const some = await core.sessions.samples(owner, each.id, { from, to });
        return some.map((sample) => ({ at: sample.at, metric: metricOf(each, sample.at, sample) }));
      }),
    );
    return samples.flat();
  }

  /** undefined while it does not run */
  async function presentOf(owner: Owner, session: Session): Promise<object | undefined> {
    if (wire.stateOf(session) === "paused") return undefined;
    const load = await core.sessions.load(owner, session.id);
    return metricOf(session, clock(), load);
  }

  function metricOf(session: Session, at: number, { processors, memory, cache = 0, disk = 0 }: Use): object {
    return {
      ...times(at),
      cpuCount: session.vcpus,
      cpuUsedPct: Math.round(processors * 10_000) / 100,
      memUsed: Math.max(0, memory - cache),
      memTotal: session.memory * 2 ** 20,
      memCache: cache,
      diskUsed: disk,
      diskTotal: dialect.limits.disk,
    };
  }

  async function stepsOf(c: E2bContext, query: z.output<typeof teamQuery>) {
    const owner = c.get("owner");
    const team = c.req.param("id");
    if (team !== owner.teamId) throw new Refusal(403, `The key does not belong to the team "${team?.slice(0, 64)}"`);
    const to = query.end === undefined ? clock() : query.end * 1000;
    const from = query.start === undefined ? Math.max(0, to - usualTime) : query.start * 1000;
    if (from >= to) throw new Refusal(400, "`start` must be before `end`");
    if (to - from > longestTime) throw new Refusal(400, "`start` and `end` may be at most 31 days apart");
    const step = Math.max(leastStep, Math.ceil((to - from) / mostSteps / 1000) * 1000);
    return { steps: await core.sessions.concurrency(owner, { from, to, step }), step };
  }
}

/** What was used, as a sample and as of now. */
interface Use {
  processors: number;
  memory: number;
  cache?: number;
  disk?: number;
}

function times(at: number): object {
  return { timestamp: wire.time(at), timestampUnix: Math.floor(at / 1000) };
}

/** a second */
function rate(started: number, step: number): number {
  return started / (step / 1000);
}
