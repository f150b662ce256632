/** Invalid input in FastAPI's format: clients read the place and the type, people read the message. */

import { expect, test } from "vitest";
import type { z } from "zod";
import { parsed } from "../kit/http.ts";
import { errorResponse, located, type Place } from "./errors.ts";
import { schemas } from "./schemas.ts";

const all = schemas({ vcpus: 8, lifetime: 86_400_000, ports: 15, volume: 1 << 30 });
const { sandboxesQuery: list, executeBody: execute, killBody: kill, volumeUploadForm: upload } = all;

interface Case {
  what: string;
  schema: z.ZodType;
  place: Place;
  value: object;
  complaint: [name: string, type: string, msg: string];
}

const integer = "Input should be a valid integer, unable to parse string as an integer";
const least = "Input should be greater than or equal to 1";

test.each<Case>([
  query("a number that is none", { limit: "abc" }, ["limit", "int_parsing", integer]),
  query("a number that is too small", { limit: "0" }, ["limit", "greater_than_equal", least]),
  query("a list for an object", { metadata: "[]" }, ["metadata", "dict_type", "Input should be a valid dictionary"]),
  query("an unknown filter", { status: "x" }, ["status", "extra_forbidden", "Extra inputs are not permitted"]),
  body("no code", execute, {}, ["command", "missing", "Field required"]),
  body("no session", kill, {}, ["session_id", "missing", "Field required"]),
  body("no file", upload, { path: "a" }, ["file", "missing", "Field required"]),
  body("text for a file", upload, { path: "a", file: "x" }, ["file", "value_error", "Input should be a file"]),
])("$what has the place and the type that FastAPI uses", async ({ schema, place, value, complaint }) => {
  const [name, type, msg] = complaint;
  const answer = answerTo(() => located(place, () => parsed(schema, value)));
  expect(answer.status).toBe(422);
  expect(await answer.json()).toEqual({ detail: [{ loc: [place, name], type, msg }] });
});

function query(what: string, value: object, complaint: Case["complaint"]): Case {
  return { what, schema: list, place: "query", value, complaint };
}

function body(what: string, schema: z.ZodType, value: object, complaint: Case["complaint"]): Case {
  return { what, schema, place: "body", value, complaint };
}

function answerTo(work: () => unknown): Response {
  try {
    work();
  } catch (error) {
    return errorResponse(error, () => expect.fail("It is no fault of ours"));
  }
  return expect.fail("It was taken");
}
