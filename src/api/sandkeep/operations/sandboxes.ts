/** Sandboxes: create, list, get, change, resume, fork and delete them. */

import { z } from "zod";
import type { Owner } from "../../../core/model/sandbox.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import { undoIfGone } from "../../kit/http.ts";
import { answers, flag, operation, sandboxName, wholeNumber } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { printSandbox, sandboxBodies, sandboxResource, settingsOf, specOf } from "../resources/sandbox.ts";
import { sessionState } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Sandboxes";
const params = { sandbox: sandboxName };

const filters = {
  namePrefix: z.string().min(1).max(256).optional(),
  state: z
    .union([sessionState, z.array(sessionState)])
    .optional()
    .meta({ description: "Only sandboxes whose current session is in this state; may be repeated" }),
  tag: z
    .union([tagPair(), z.array(tagPair()).max(8)])
    .optional()
    .meta({ description: "Only sandboxes with this tag, as name=value; may be repeated" }),
  image: z.string().min(1).max(512).optional().meta({ description: "Name of their image" }),
  createdAfter: wholeNumber().optional().meta({ description: "Milliseconds since 1970" }),
};

function tagPair() {
  return z
    .string()
    .max(1024)
    .regex(/^[^=]+=/, "a tag is written as name=value.");
}

export function sandboxOperations({ core, limits, domain, logError }: Dialect) {
  const bodies = sandboxBodies(limits);
  const print = (booted: Booted) => printSandbox(booted, domain());
  /** deletes a sandbox whose client went away before it got the name, unless a repeat can ask for it */
  const keepIfAnswered = ({ owner, request }: { owner: Owner; request: Request }, name: unknown, made: Booted) => {
    if (name !== undefined || request.headers.has("idempotency-key")) return;
    undoIfGone(request, () => core.sandboxes.abandon(owner, made.sandbox.id), logError);
  };

  return [
    operation({
      id: "listSandboxes",
      method: "GET",
      path: "/sandboxes",
      tag,
      summary: "Lists the sandboxes of a project",
      about: "project",
      query: { ...pageQuery, ...filters, sortBy: z.enum(["createdAt", "name", "stateChangedAt"]).default("createdAt") },
      answer: answers("A page of sandboxes", z.object({ sandboxes: z.array(sandboxResource), next })),
      async run({ owner, query: { sortBy, ...query } }) {
        const page = { ...pageOf(query), ...filterOf(owner, query), sortBy };
        return printPage("sandboxes", await core.sandboxes.listWithSessions(owner, page), print);
      },
    }),
    operation({
      id: "countSandboxes",
      method: "GET",
      path: "/sandboxes/count",
      tag,
      summary: "Counts the sandboxes of a project that a filter selects",
      about: "project",
      query: filters,
      answer: answers("Their number", z.object({ count: z.int() })),
      async run({ owner, query }) {
        return { count: await core.sandboxes.count(owner, filterOf(owner, query)) };
      },
    }),
    operation({
      id: "createSandbox",
      method: "POST",
      path: "/sandboxes",
      tag,
      summary: "Creates a sandbox, which runs when the answer comes",
      about: "project",
      body: bodies.create,
      answer: answers("The sandbox", sandboxResource, 201),
      async run(given) {
        const made = await core.sandboxes.create(given.owner, specOf(given.body));
        keepIfAnswered(given, given.body.name, made);
        return print(made);
      },
    }),
    operation({
      id: "getSandbox",
      method: "GET",
      path: "/sandboxes/{sandbox}",
      tag,
      summary: "Returns a sandbox with its current session",
      about: "project",
      params,
      answer: answers("The sandbox", sandboxResource),
      run: async ({ owner, params: { sandbox } }) => print(await core.sandboxes.get(owner, sandbox)),
    }),
    operation({
      id: "changeSandbox",
      method: "PATCH",
      path: "/sandboxes/{sandbox}",
      tag,
      summary: "Changes the settings of a sandbox",
      description:
        "Members that are left out stay as they are. `ports` and `tags` change at once, all else in the next session.",
      about: "project",
      params,
      body: bodies.change,
      answer: answers("The sandbox", sandboxResource),
      async run({ owner, params: { sandbox: name }, body: { currentSnapshotId, ...settings } }) {
        const { name: _, ...changes } = settingsOf(settings);
        await core.sandboxes.update(owner, name, { ...changes, currentSnapshotId });
        return print(await core.sandboxes.get(owner, name));
      },
    }),
    operation({
      id: "deleteSandbox",
      method: "DELETE",
      path: "/sandboxes/{sandbox}",
      tag,
      summary: "Stops a sandbox without keeping its files, and deletes it",
      about: "project",
      params,
      query: { snapshots: flag().default(false).meta({ description: "Whether its snapshots are deleted, too" }) },
      answer: { status: 204, description: "It is gone" },
      async run({ owner, params: { sandbox }, query: { snapshots } }) {
        await core.sandboxes.delete(owner, sandbox, { orphanSnapshots: snapshots });
        return undefined;
      },
    }),
    operation({
      id: "resumeSandbox",
      method: "POST",
      path: "/sandboxes/{sandbox}/resume",
      tag,
      summary: "Continues a paused sandbox, or starts a stopped one with its files",
      about: "project",
      params,
      body: z.strictObject({
        timeout: z.int().min(1000).max(limits.timeout).optional(),
        fresh: z.boolean().optional().meta({ description: "Whether one without a snapshot starts from its image" }),
        memory: z.boolean().optional().meta({ description: "false: a paused one starts again, with its files only" }),
      }),
      answer: answers("The sandbox, which runs", sandboxResource),
      run: async ({ owner, params: { sandbox }, body }) => print(await core.sandboxes.resume(owner, sandbox, body)),
    }),
    operation({
      id: "forkSandbox",
      method: "POST",
      path: "/sandboxes/{sandbox}/fork",
      tag,
      summary: "Creates a sandbox with the current files and settings of another",
      description: "A running sandbox is captured first, and runs on.",
      about: "project",
      params,
      body: bodies.fork,
      answer: answers("The new sandbox", sandboxResource, 201),
      async run(given) {
        const made = await core.sandboxes.branch(given.owner, given.params.sandbox, settingsOf(given.body));
        keepIfAnswered(given, given.body.name, made);
        return print(made);
      },
    }),
  ];
}

type Filters = z.output<z.ZodObject<typeof filters>>;

function filterOf({ teamId }: Owner, { namePrefix, state, tag: tags, image, createdAfter }: Filters) {
  const pairs = [tags ?? []].flat().map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  return {
    ...(namePrefix !== undefined && { namePrefix }),
    ...(state !== undefined && { states: [state].flat() }),
    ...(pairs.length > 0 && { tags: Object.fromEntries(pairs) }),
    ...(image !== undefined && { image: { name: image, teamId } }),
    ...(createdAfter !== undefined && { createdAfter }),
  };
}
