/** How Vercel's wire words errors of the core, where that depends on the subject of the error. */

import { expect, test } from "vitest";
import { notFound, SandkeepError, tooMany } from "../../core/model/errors.ts";
import { inVercelsWords } from "./errors.ts";

test.each([
  [notFound("sandbox", "mine"), 404, "not_found", "Named sandbox 'mine' not found for this project."],
  [notFound("drive", "data"), 404, "not_found", "Drive 'data' not found for this project."],
  [tooMany(8), 429, "rate_limited", "The concurrency limit has been exceeded."],
  [new SandkeepError("limit", "Cannot list: too many files"), 429, "rate_limited", "Cannot list: too many files"],
  [new SandkeepError("not-found", "Cannot find it"), 404, "not_found", "Cannot find it"],
])("%s has the status, code and message that clients know", (error, status, code, message) => {
  expect(inVercelsWords(error)).toMatchObject({ status, code, message });
});
