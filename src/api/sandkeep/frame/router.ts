/** Serves the declared operations: checks their input, finds what they are about, and writes their answers. */

import type { Hono } from "hono";
import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Caller } from "../../../core/model/sandbox.ts";
import { bodyText, json, jsonOf, parsed, queryParameters, requireText } from "../../kit/http.ts";
import { once } from "../../kit/idempotency.ts";
import { ids } from "../../kit/ids.ts";
import type { Dialect, Env, SandkeepContext } from "../sandkeep.ts";
import {
  type AnyOperation,
  isRepeatable,
  type OperationPath,
  pathsOf,
  type Subject,
  scopeQueries,
} from "./operation.ts";

export function serve(app: Hono<Env>, dialect: Dialect, operations: readonly AnyOperation[]): void {
  for (const operation of operations) {
    for (const at of pathsOf(operation)) {
      const handle = handler(dialect, operation, at);
      app.on(operation.method, at.path.replaceAll(/\{(\w+)\}/g, ":$1"), handle);
    }
  }
}

function handler(dialect: Dialect, operation: AnyOperation, at: OperationPath) {
  const { core, limits, idempotency } = dialect;
  const paramSchema = z.object(at.params);
  const querySchema = z.strictObject({ ...scopeQueries[operation.about as Subject], ...operation.query });
  const { body: bodySchema } = operation;

  return async (c: SandkeepContext): Promise<Response> => {
    const given = parametersOf(c, paramSchema, operation);
    const { team, project, ...query } = parsed(querySchema, queryParameters(c)) as Record<string, unknown> & Named;
    const text = bodySchema ? await bodyText(c.req.raw, limits.body) : "";
    const body: unknown = bodySchema && parsed(bodySchema, jsonOf(text));
    const caller = await core.access.actingFor(c.get("caller"), team);
    const { sandbox, ...params } = operation.about === "session" ? given : { ...given, sandbox: undefined };
    const subject = await subjectOf(caller, { project, sandbox, session: given.session });
    const key = idempotencyKeyOf(c, operation);
    const atMostOnce = <T>(work: () => Promise<T>) => {
      // Other keys of the team may not see the answer: it may have a secret, and they may have other rights and limits.
      const scope = `${caller.teamId} ${caller.keyId ?? ""} ${JSON.stringify(caller.scope ?? {})} ${c.req.method} ${c.req.path}`;
      const request = `${new URL(c.req.url).search}\n${text}`;
      return once(idempotency, { key, team: caller.teamId, scope, request }, work);
    };
    const request = {
      ...{ caller, query, body, request: c.req.raw, connection: c.env, once: atMostOnce },
      ...{ params: operation.about === "session" ? params : given },
      ...subject,
    };
    const run = async () => operation.run(request);
    return answer(operation, await (key === undefined || operation.callsOnce ? run() : atMostOnce(run)));
  };

  async function subjectOf(caller: Caller, { project, sandbox, session }: Place): Promise<object> {
    if (operation.about === "project") return { owner: await core.access.owner(caller, { project }) };
    if (operation.about !== "session") return {};
    if (session !== undefined) {
      if (project !== undefined) throw new SandkeepError("invalid", "Invalid request: a session needs no `project`.");
      return { session };
    }
    const owner = await core.access.owner(caller, { project });
    return { session: (await core.sandboxes.get(owner, sandbox ?? "")).session.id };
  }
}

/** the header of a request that could do something twice; other methods only do again what is done */
function idempotencyKeyOf(c: SandkeepContext, operation: AnyOperation): string | undefined {
  const key = c.req.header("idempotency-key");
  if (key === undefined || operation.method !== "POST") return undefined;
  if (isRepeatable(operation)) return key;
  const why = "nothing tells whether a body of bytes is a repeat; send the request again without it.";
  throw new SandkeepError("invalid", `Invalid request: \`Idempotency-Key\` should NOT be given, because ${why}`);
}

interface Named {
  team?: string;
  project?: string;
}

interface Place {
  project: string | undefined;
  sandbox: string | undefined;
  session: string | undefined;
}

/** the values in the path; one that no thing can have is not looked up */
function parametersOf(
  c: SandkeepContext,
  schema: z.ZodObject,
  { namesNew }: Pick<AnyOperation, "namesNew">,
): Record<string, string> {
  const given = c.req.param();
  requireText(given);
  if (namesNew) return parsed(schema, given) as Record<string, string>; // schemas of texts
  const result = schema.safeParse(given);
  if (result.success) return result.data as Record<string, string>; // schemas of texts
  const [name = ""] = result.error.issues[0]?.path ?? [];
  throw new SandkeepError("not-found", `There is no ${String(name)} "${(given[String(name)] ?? "").slice(0, 100)}"`);
}

function answer({ answer: { status } }: AnyOperation, value: unknown): Response {
  if (value instanceof Response) return value;
  return status === 204 ? new Response(null, { status }) : json(value, status);
}

/** the schema of an id in a path */
export function idOf(kind: keyof typeof ids): z.ZodString {
  return z.string().regex(ids[kind]);
}
