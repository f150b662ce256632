/** The status, code and message of each of the core's errors, on every wire: clients depend on them. */

import { expect, test } from "vitest";
import { type ErrorCode, SandkeepError, type Subject } from "../core/model/errors.ts";
import * as e2b from "./e2b/errors.ts";
import * as instavm from "./instavm/errors.ts";
import * as sandkeep from "./sandkeep/errors.ts";
import * as vercel from "./vercel/errors.ts";
import * as veryfront from "./veryfront/errors.ts";

interface Row {
  of: [code: ErrorCode, kind?: Subject["kind"], state?: Subject["state"]];
  /** the message, if it is not the core's own */
  vercel: [status: number, code: string, message?: string];
  sandkeep: [status: number, code: string, message?: string];
  veryfront: [status: number, detail?: string];
  instavm: [status: number, detail?: string];
  e2b: [status: number, message?: string];
}

const own = "Cannot: because";

test.each<Row>([
  {
    of: ["invalid"],
    vercel: [400, "bad_request"],
    sandkeep: [400, "invalid"],
    veryfront: [400],
    instavm: [400],
    e2b: [400],
  },
  {
    of: ["invalid", "directory"],
    vercel: [400, "bad_request"],
    sandkeep: [400, "bad_cwd"],
    veryfront: [400],
    instavm: [400],
    e2b: [400],
  },
  {
    of: ["invalid", "user"],
    vercel: [400, "bad_request"],
    sandkeep: [400, "unknown_user"],
    veryfront: [400],
    instavm: [400],
    e2b: [400],
  },
  {
    of: ["invalid", "image"],
    vercel: [400, "bad_request"],
    sandkeep: [400, "invalid"],
    veryfront: [400],
    instavm: [400],
    e2b: [
      404,
      "Template not found: no template, snapshot or image has this name (`sandkeep image pull` or `sandkeep image import` brings an image)",
    ],
  },
  {
    of: ["invalid", "executable"],
    vercel: [400, "executable_not_found"],
    sandkeep: [400, "unknown_executable"],
    veryfront: [400, "Cannot run the command: the sandbox's image has no bash"],
    instavm: [400],
    e2b: [400],
  },
  {
    of: ["unsupported"],
    vercel: [400, "bad_request"],
    sandkeep: [400, "unsupported"],
    veryfront: [400],
    instavm: [400],
    e2b: [400],
  },
  {
    of: ["unauthenticated"],
    vercel: [401, "unauthorized", "Not authorized: the token is missing or invalid."],
    sandkeep: [401, "unauthenticated"],
    veryfront: [401, "Not authorized: the token is missing or invalid"],
    instavm: [401, "Invalid or missing API key"],
    e2b: [401, "Invalid API key: it is missing, or no team has it"],
  },
  {
    of: ["forbidden"],
    vercel: [403, "forbidden"],
    sandkeep: [403, "forbidden"],
    veryfront: [403],
    instavm: [403],
    e2b: [403],
  },
  {
    of: ["forbidden", "key"],
    vercel: [403, "forbidden"],
    sandkeep: [403, "out_of_scope"],
    veryfront: [403],
    instavm: [403],
    e2b: [403],
  },
  {
    of: ["not-found"],
    vercel: [404, "not_found"],
    sandkeep: [404, "not_found"],
    veryfront: [404],
    instavm: [404],
    e2b: [404],
  },
  {
    of: ["timeout"],
    vercel: [422, "timeout"],
    sandkeep: [408, "timeout"],
    veryfront: [408],
    instavm: [408],
    e2b: [408],
  },
  {
    of: ["exists"],
    vercel: [409, "conflict"],
    sandkeep: [409, "exists"],
    veryfront: [409],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["exists", "sandbox"],
    vercel: [400, "bad_request"],
    sandkeep: [409, "name_taken"],
    veryfront: [400],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["conflict"],
    vercel: [409, "conflict"],
    sandkeep: [409, "conflict"],
    veryfront: [409],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["conflict", "drive"],
    vercel: [409, "conflict"],
    sandkeep: [409, "attached"],
    veryfront: [409],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["conflict", "command"],
    vercel: [400, "command_stdin_unavailable"],
    sandkeep: [409, "no_input"],
    veryfront: [409],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["conflict", "snapshot"],
    vercel: [400, "snapshot_not_found", "Cannot resume sandbox: no snapshot available."],
    sandkeep: [409, "no_snapshot"],
    veryfront: [400],
    instavm: [409],
    e2b: [404],
  },
  {
    of: ["conflict", "session", "stopping"],
    vercel: [422, "sandbox_stopping", "Sandbox is stopping and is no longer available."],
    sandkeep: [409, "stopping"],
    veryfront: [409, "The sandbox session is ending"],
    instavm: [409],
    e2b: [409],
  },
  {
    of: ["conflict", "session", "snapshotting"],
    vercel: [422, "sandbox_snapshotting", "Sandbox is creating a snapshot and will be stopped shortly."],
    sandkeep: [409, "snapshotting"],
    veryfront: [409, "The sandbox session is ending"],
    instavm: [409],
    e2b: [409],
  },
  { of: ["gone"], vercel: [410, "gone"], sandkeep: [410, "gone"], veryfront: [404], instavm: [410], e2b: [404] },
  {
    of: ["gone", "session"],
    vercel: [410, "sandbox_stopped", "Sandbox has stopped execution and is no longer available"],
    sandkeep: [410, "stopped"],
    veryfront: [404, "The sandbox session has ended"],
    instavm: [409],
    e2b: [404],
  },
  {
    of: ["gone", "snapshot"],
    vercel: [410, "snapshot_not_found"],
    sandkeep: [410, "snapshot_gone"],
    veryfront: [409],
    instavm: [410],
    e2b: [404],
  },
  {
    of: ["limit"],
    vercel: [429, "rate_limited"],
    sandkeep: [429, "limit"],
    veryfront: [429],
    instavm: [429],
    e2b: [429],
  },
  {
    of: ["internal"],
    vercel: [500, "internal_server_error", "An internal error occurred."],
    sandkeep: [500, "internal", "An internal error occurred"],
    veryfront: [500, "An internal error occurred"],
    instavm: [500, "Internal Server Error"],
    e2b: [500, "An internal error occurred"],
  },
  {
    of: ["unavailable"],
    vercel: [503, "service_unavailable"],
    sandkeep: [503, "unavailable"],
    veryfront: [503],
    instavm: [503],
    e2b: [503],
  },
  {
    of: ["no-room"],
    vercel: [507, "insufficient_storage"],
    sandkeep: [507, "no_room"],
    veryfront: [507],
    instavm: [507],
    e2b: [507],
  },
])("$of", async ({ of: [code, kind, state], ...wires }) => {
  const error = new SandkeepError(code, own, kind && { about: { kind, ...(state && { state }) } });
  const logError = () => undefined;
  for (const [answer, [status, word, message = own]] of [
    [vercel.errorResponse(error, logError), wires.vercel],
    [sandkeep.errorResponse(error, logError), wires.sandkeep],
  ] as const) {
    expect([answer.status, await answer.json()]).toEqual([status, { error: { code: word, message } }]);
  }
  for (const [answer, [status, detail = own]] of [
    [veryfront.errorResponse(error, logError), wires.veryfront],
    [instavm.errorResponse(error, logError), wires.instavm],
  ] as const) {
    expect([answer.status, await answer.json()]).toEqual([status, expect.objectContaining({ detail })]);
  }
  const [status, message = own] = wires.e2b;
  const answer = e2b.errorResponse(error, logError);
  expect([answer.status, await answer.json()]).toEqual([status, { code: status, message }]);
});
