/** The lists of sandboxes on E2B's API: running and paused ones in pages, and the older list of running ones. */

import type { Hono } from "hono";
import type { Owner, SessionState } from "../../../core/model/sandbox.ts";
import { templateImage } from "../../../core/model/template.ts";
import type { SandboxFilter } from "../../../core/ports/store.ts";
import { isAsleep, openStates, overStates } from "../../../core/sessions/states.ts";
import { json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { type Dialect, type Env, queryOf } from "../request.ts";
import * as wire from "../wire.ts";

const states = {
  running: openStates.filter((state) => !isAsleep(state)),
  paused: ["paused", ...overStates],
} satisfies Record<string, SessionState[]>;
/** most sandboxes in the list without pages */
const longest = 1000;

export function listRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas, limits } = dialect;

  app.get("/v2/sandboxes", async (c) => {
    const query = queryOf(c, schemas.listQuery);
    const { state = ["running", "paused"], startedAfter, template, order, limit, nextToken } = query;
    const owner = c.get("owner");
    const filter: Omit<SandboxFilter, "projectId"> = {
      ...tagsOf(query.metadata),
      ...(startedAfter !== undefined && { createdAfter: Date.parse(startedAfter) }),
      ...(template !== undefined && (await templateFilter(dialect, owner, template))),
    };
    const wanted = { ...filter, states: [...new Set(state)].flatMap((each) => [...states[each]]), kept: true };
    const page = { limit, order, sortBy: "createdAt" as const, ...(nextToken !== undefined && { cursor: nextToken }) };
    const { items, next } = await core.sandboxes.listWithSessions(owner, { ...wanted, ...page });
    const headers: Record<string, string> = next === undefined ? {} : { "x-next-token": next };
    if (state.includes("running")) {
      headers["x-total-running"] = String(await core.sandboxes.count(owner, { ...filter, states: states.running }));
    }
    return json(
      items.filter(({ session }) => wire.isThere(session)).map((each) => wire.listed(each, limits)),
      200,
      headers,
    );
  });

  app.get("/sandboxes", async (c) => {
    const { metadata } = queryOf(c, schemas.runningQuery);
    const query = {
      ...tagsOf(metadata),
      states: states.running,
      limit: longest,
      order: "desc",
      sortBy: "createdAt",
    } as const;
    const { items } = await core.sandboxes.listWithSessions(c.get("owner"), query);
    return json(items.map((each) => wire.listed(each, limits)));
  });
}

/**
 * An image has the name of its template's id, or its own. A sandbox made here has a note of the name that its client
 * asked for, which may stand for the default image.
 */
async function templateFilter(
  { core }: Dialect,
  owner: Owner,
  name: string,
): Promise<Pick<SandboxFilter, "noted" | "imageNamePrefix">> {
  const template = await core.templates.lookUp(owner, name);
  if (template) return { imageNamePrefix: templateImage({ templateId: template.id, id: "" }) };
  const imageNames = name === wire.defaultTemplate ? [null, name] : [name];
  return { noted: { member: "template", value: name, otherwise: { imageNames } } };
}

/**
 * Pairs that a sandbox's metadata must have. Clients escape keys and values, then the pairs as a form, and then the
 * whole as a query parameter. The last escaping is already undone here: user=a%2520b → user=a%20b → "user", "a b"
 */
function tagsOf(metadata: string | undefined): Pick<SandboxFilter, "tags"> {
  if (metadata === undefined || metadata === "") return {};
  const pairs = unescaped(metadata)
    .split("&")
    .map((pair) => pair.split("=").map(unescaped));
  if (pairs.some(({ length }) => length !== 2)) {
    throw new Refusal(400, "Invalid request: `metadata` should be pairs of a key and a value.");
  }
  return { tags: Object.fromEntries(pairs) };
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new Refusal(400, "Invalid request: `metadata` is not escaped as it should be.");
  }
}
