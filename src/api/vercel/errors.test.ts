/** The core's errors in Vercel's words, where these depend on what an error is about. */

import { expect, test } from "vitest";
import { notFound, SandkeepError, tooMany } from "../../core/model/errors.ts";
import { inVercelsWords } from "./errors.ts";

test.each([
  [notFound("sandbox", "mine"), 404, "not_found", "Named sandbox 'mine' not found for this project."],
  [notFound("drive", "data"), 404, "not_found", "Drive 'data' not found for this project."],
  [tooMany(8), 429, "rate_limited", "The concurrency limit has been exceeded."],
  [new SandkeepError("limit", "Cannot list: too many files"), 429, "rate_limited", "Cannot list: too many files"],
  [new SandkeepError("not-found", "Cannot find it"), 404, "not_found", "Cannot find it"],
])("%s is told as clients know it", (error, status, code, message) => {
  expect(inVercelsWords(error)).toMatchObject({ status, code, message });
});
