/** The outbound connections of a session: its egress log, once or as a stream, and the narrowest sufficient policy. */

import type { Hono } from "hono";
import { z } from "zod";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Session } from "../../core/model/sandbox.ts";
import type { EgressPage } from "../../core/network/egress-log.ts";
import type { CustomPolicy } from "../../core/network/network-policy.ts";
import type { PolicySuggestion } from "../../core/network/policy-suggestion.ts";
import { json, parsed, queryParameters, requireText } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import { ndjson } from "../kit/live.ts";
import { errorLine } from "./errors.ts";
import type { Dialect, Env, SandkeepContext } from "./sandkeep.ts";

const number = z
  .string()
  .regex(/^\d{1,15}$/, "a number of the query is not one.")
  .transform(Number);
const logQuery = z
  .strictObject({
    project: z.string().min(1).max(128).optional(),
    after: number.default(0),
    limit: number.pipe(z.number().min(1).max(1000)).optional(),
    follow: z.enum(["true", "false"]).optional(),
  })
  .refine(({ follow, limit }) => follow !== "true" || limit === undefined, {
    error: "`limit` should NOT be given together with `follow`.",
  });
const suggestionQuery = z.strictObject({ project: z.string().min(1).max(128).optional() });

const defaultLimit = 100;
/** longest silence of a stream, in ms */
const patience = 15_000;

export function egressRoutes(app: Hono<Env>, { core, logError }: Dialect): void {
  // A sandbox's path shows its last session.
  for (const path of ["/sessions/:session/egress", "/sandboxes/:sandbox/egress"]) {
    app.get(path, async (c) => {
      const { project, after, limit = defaultLimit, follow } = parsed(logQuery, queryParameters(c));
      const caller = c.get("caller");
      const id = await sessionOf(c, project);
      if (follow !== "true") return json(printPage(await core.egress.page(caller, id, { after, limit })));
      const left = new AbortController();
      const lines = await core.egress.follow(caller, id, { after, signal: left.signal });
      return ndjson(
        (gone) => {
          gone.addEventListener("abort", () => left.abort(), { once: true });
          return lines;
        },
        { failure: (error) => errorLine(error, logError), patience },
      );
    });
    app.get(`${path}/suggestion`, async (c) => {
      const { project } = parsed(suggestionQuery, queryParameters(c));
      const id = await sessionOf(c, project);
      return json(printSuggestion(await core.egress.suggestion(c.get("caller"), id)));
    });
  }

  async function sessionOf(c: SandkeepContext, project: string | undefined): Promise<string> {
    const name = c.req.param("sandbox");
    if (name !== undefined) {
      requireText(name);
      const owner = await core.access.owner(c.get("caller"), { project });
      return (await core.sandboxes.get(owner, name)).session.id;
    }
    if (project !== undefined) throw new SandkeepError("invalid", "Invalid request: a session needs no `project`.");
    const id = c.req.param("session") ?? "";
    if (!ids.session.test(id)) throw new SandkeepError("not-found", "Session not found.");
    return id;
  }
}

function printPage({ session, lines, next, more, hosts, ports, totals }: EgressPage): object {
  const sum = (field: "bytesIn" | "bytesOut") =>
    [...hosts, ...ports].reduce((total, traffic) => total + traffic[field], 0);
  return {
    session: printSession(session),
    events: lines,
    next,
    more,
    hosts,
    ports,
    totals: {
      payload: { bytesIn: sum("bytesIn"), bytesOut: sum("bytesOut") },
      packets: { bytesIn: totals.ingressBytes, bytesOut: totals.egressBytes },
    },
  };
}

function printSuggestion({ session, policy, notes }: PolicySuggestion & { session: Session }): object {
  return { session: printSession(session), networkPolicy: requestForm(policy), notes };
}

function printSession({ id, sandboxName, state }: Session): object {
  return { id, sandbox: sandboxName, state };
}

/** the form in which clients of the default dialect send a policy */
function requestForm({ domains, allowedCidrs }: CustomPolicy): object {
  return {
    allow: domains.map(({ domain }) => domain),
    ...(allowedCidrs.length > 0 && { subnets: { allow: allowedCidrs } }),
  };
}
