/** What the page says when the daemon refuses. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ApiError } from "../client/client.ts";

beforeAll(() => {
  vi.stubGlobal("location", { origin: "http://127.0.0.1:7700" });
});
afterAll(() => vi.unstubAllGlobals());

test("a refusal shows control and direction characters of foreign names as escapes", async () => {
  const { sentence } = await import("./session.ts");
  const error = new ApiError(404, { code: "not_found", message: 'There is no file "a\u202egpj.exe"' }, "req_1");
  expect(sentence(error)).toBe('There is no file "a\\u{202e}gpj.exe" (request req_1)');
  expect(sentence(new TypeError("\u202e"))).toBe("The daemon does not answer");
});
