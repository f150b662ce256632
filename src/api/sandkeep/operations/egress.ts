/** The outbound connections of a session or a project: logs, once or as a stream, and the narrowest sufficient policy. */

import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Session } from "../../../core/model/sandbox.ts";
import type { EgressPage } from "../../../core/network/egress-log.ts";
import type { CustomPolicy } from "../../../core/network/network-policy.ts";
import type { PolicySuggestion } from "../../../core/network/policy-suggestion.ts";
import { ndjson } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { answers, flag, operation, wholeNumber } from "../frame/operation.ts";
import { next, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { egressLine, projectEgressLine } from "../resources/egress-line.ts";
import { bytes, sessionState } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Network";
const params = { session: idOf("session") };
const defaultLimit = 100;
/** longest silence of a stream, in ms */
const patience = 15_000;

const traffic = { connections: z.int(), bytesIn: bytes, bytesOut: bytes };
const sums = z.object({ bytesIn: bytes, bytesOut: bytes });
const ofSession = z.object({ id: z.string(), sandbox: z.string(), state: sessionState });

export function egressOperations({ core, logError }: Dialect) {
  return [
    operation({
      id: "readEgressLog",
      method: "GET",
      path: "/sessions/{session}/egress",
      tag,
      summary: "Returns the outbound connections of a session and whether each was allowed",
      about: "session",
      params,
      query: {
        after: wholeNumber().optional().meta({ description: "`next` of the page before" }),
        limit: wholeNumber({ min: 1, max: 1000 }).optional(),
        follow: flag().default(false).meta({ description: "Whether to stream lines until the session has ended" }),
      },
      answer: {
        ...answers(
          "A page",
          z
            .object({
              session: ofSession,
              events: z.array(egressLine),
              next: z.int(),
              more: z.boolean(),
              hosts: z.array(z.object({ host: z.string(), ...traffic })),
              ports: z.array(z.object({ port: z.int(), ...traffic })),
              totals: z.object({ payload: sums, packets: sums }),
            })
            .meta({ id: "EgressPage" }),
        ),
        others: { "application/x-ndjson": egressLine },
      },
      async run({ caller, session, query: { after = 0, limit, follow } }) {
        if (follow && limit !== undefined) {
          throw new SandkeepError("invalid", "Invalid request: `limit` should NOT be given together with `follow`.");
        }
        if (!follow) return printLog(await core.egress.page(caller, session, { after, limit: limit ?? defaultLimit }));
        const left = new AbortController();
        const lines = await core.egress.follow(caller, session, { after, signal: left.signal });
        return ndjson(
          (gone) => {
            gone.addEventListener("abort", () => left.abort(), { once: true });
            return lines;
          },
          { failure: (error) => errorLine(error, logError), patience },
        );
      },
    }),
    operation({
      id: "listEgress",
      method: "GET",
      path: "/egress",
      tag,
      summary: "Lists the outbound connections of all sandboxes of a project, newest first",
      description:
        "Has the logs of the sandboxes that run and of the newest 500 sessions, as far as they are kept, up to about a second ago.",
      about: "project",
      query: {
        limit: wholeNumber({ min: 1, max: 1000 }).optional(),
        cursor: pageQuery.cursor,
        refused: flag().default(false).meta({ description: "Whether to list only refused connections" }),
      },
      answer: answers("A page", z.object({ events: z.array(projectEgressLine), next })),
      async run({ owner, query: { limit = defaultLimit, cursor, refused } }) {
        const page = await core.egress.newest(owner, { limit, cursor, refused });
        return printPage("events", page, ({ session: { id, sandboxName }, line }) => {
          return { session: id, sandbox: sandboxName, ...line };
        });
      },
    }),
    operation({
      id: "suggestPolicy",
      method: "GET",
      path: "/sessions/{session}/egress/suggestion",
      tag,
      summary: "Returns the narrowest network policy that allows what the log of a session shows",
      description: "Programs in the sandbox chose what is in it. Read it before you use it.",
      about: "session",
      params,
      answer: answers(
        "The policy and what to know about it",
        z.object({
          session: ofSession,
          networkPolicy: z.object({
            allow: z.array(z.string()),
            subnets: z.object({ allow: z.array(z.string()) }).optional(),
          }),
          notes: z.array(z.string()),
        }),
      ),
      run: async ({ caller, session }) => printSuggestion(await core.egress.suggestion(caller, session)),
    }),
  ];
}

function printLog({ session, lines, next, more, hosts, ports, totals }: EgressPage) {
  const sum = (field: "bytesIn" | "bytesOut") => [...hosts, ...ports].reduce((total, each) => total + each[field], 0);
  return {
    session: printSession(session),
    events: lines.map((line) => ({ ...line })),
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

function printSuggestion({ session, policy, notes }: PolicySuggestion & { session: Session }) {
  return { session: printSession(session), networkPolicy: requestForm(policy), notes };
}

function printSession({ id, sandboxName, state }: Session) {
  return { id, sandbox: sandboxName, state };
}

/** the form in which clients of the default dialect send a policy */
function requestForm({ domains, allowedCidrs }: CustomPolicy) {
  return {
    allow: domains.map(({ domain }) => domain),
    ...(allowedCidrs.length > 0 && { subnets: { allow: allowedCidrs } }),
  };
}
