/** A sandbox's current use of processors, memory and disk on E2B's API. No earlier values are kept. */

import type { Hono } from "hono";
import type { Owner } from "../../../core/model/sandbox.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import { json } from "../../kit/http.ts";
import { type Dialect, type Env, queryOf, sandboxCalled, sandboxOf } from "../request.ts";
import * as wire from "../wire.ts";

export function metricRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, clock } = dialect;

  app.get("/sandboxes/metrics", async (c) => {
    const { sandbox_ids: wanted } = queryOf(c, schemas.allMetricsQuery);
    const found = await Promise.all(
      [...new Set(wanted)].map(async (id) => {
        const booted = await sandboxCalled(dialect, c.get("owner"), id).catch(() => undefined);
        const metric = booted && (await metricOf(c.get("owner"), booted));
        return metric ? [[id, metric] as const] : [];
      }),
    );
    return json({ sandboxes: Object.fromEntries(found.flat()) });
  });

  app.get("/sandboxes/:id/metrics", async (c) => {
    const { start = 0, end = Number.POSITIVE_INFINITY } = queryOf(c, schemas.metricsQuery);
    const booted = await sandboxOf(c, dialect);
    const now = clock() / 1000;
    const metric = start <= now && now <= end + 1 ? await metricOf(c.get("owner"), booted) : undefined;
    return json(metric ? [metric] : []);
  });

  async function metricOf(owner: Owner, { session }: Booted): Promise<object | undefined> {
    if (wire.stateOf(session) === "paused") return undefined;
    const { processors, memory, cache = 0, disk = 0 } = await core.sessions.load(owner, session.id);
    const at = clock();
    return {
      timestamp: wire.time(at),
      timestampUnix: Math.floor(at / 1000),
      cpuCount: session.vcpus,
      cpuUsedPct: Math.round(processors * 10_000) / 100,
      memUsed: Math.max(0, memory - cache),
      memTotal: session.memory * 2 ** 20,
      memCache: cache,
      diskUsed: disk,
      diskTotal: dialect.limits.disk,
    };
  }
}
