/** Who uses the page, and what it says when the daemon refuses. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ApiError } from "../client/client.ts";

const once = "0123456789abcdef0123456789abcdef";
const stored = new Map<string, string>();
const asked: string[] = [];
const answers: [status: number, body: object][] = [];

beforeAll(() => {
  vi.stubGlobal("location", { origin: "http://127.0.0.1:7700", hash: `#once=${once}`, pathname: "/ui/", search: "" });
  vi.stubGlobal("history", { replaceState: () => undefined });
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => stored.set(name, value),
  });
  // Paths alone are no addresses outside of a browser.
  vi.stubGlobal(
    "Request",
    class extends Request {
      constructor(path: string, init?: RequestInit) {
        super(new URL(path, "http://127.0.0.1:7700"), init);
      }
    },
  );
  vi.stubGlobal("fetch", async (request: Request) => {
    asked.push(`${request.method} ${request.headers.get("x-sandkeep-session")} ${await request.text()}`);
    const [status, body] = answers.shift() ?? [500, {}];
    return Response.json(body, { status });
  });
});
afterAll(() => vi.unstubAllGlobals());

test("a refusal shows control and direction characters of foreign names as escapes", async () => {
  const { sentence } = await import("./session.ts");
  const error = new ApiError(404, { code: "not_found", message: 'There is no file "a\u202egpj.exe"' }, "req_1");
  expect(sentence(error)).toBe('There is no file "a\\u{202e}gpj.exe" (request req_1)');
  expect(sentence(new TypeError("\u202e"))).toBe("The daemon does not answer");
});

test("a link of another key leaves the session of this browser as it is, and waits for an answer", async () => {
  const { enter, otherLink, signIn, signInProblem, visitor } = await import("./session.ts");
  const mine = { team: "team_1", key: "key_mine", admin: false };
  stored.set("sandkeep.binding", "aaaa");
  answers.push([409, { error: { message: "The link is for another\u202e key" } }], [200, { ...mine, binding: "bbbb" }]);
  await enter();
  expect(asked).toEqual([`POST aaaa {"once":"${once}"}`, "GET aaaa "]);
  expect(visitor.value).toEqual(mine);
  expect(otherLink.value).toEqual({ once, text: "The link is for another\\u{202e} key" });
  expect(signInProblem.value).toBe("");

  answers.push([401, { error: { message: "Cannot sign in: the link\u202e has expired" } }]);
  await signIn({ once, replace: true });
  expect(asked.at(-1)).toBe(`POST bbbb {"once":"${once}","replace":true}`);
  expect(signInProblem.value).toBe("Cannot sign in: the link\\u{202e} has expired");
});
