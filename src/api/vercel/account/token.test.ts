/** Wrapping a key in a token and reading it back; other texts hold no key. */

import { expect, test } from "vitest";
import { keyOfToken, makeOidcToken } from "./token.ts";

const scope = { teamId: "team_a", projectId: "prj_b" };

test("a token returns the key that it was made from", () => {
  const token = makeOidcToken("sk_grüße.with.dots", scope);
  expect(keyOfToken(token)).toBe("sk_grüße.with.dots");
});

test("the token has the claims that Vercel's clients read, and does not expire in their lifetime", () => {
  const [, payload = ""] = makeOidcToken("sk_1", scope).split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
  expect(claims).toMatchObject({ owner_id: "team_a", project_id: "prj_b" });
  expect(claims.exp * 1000).toBeGreaterThan(Date.UTC(2090, 0));
});

test.each([
  ["a key as it is", "sk_0123456789"],
  ["nothing", ""],
  ["dots", ".."],
  ["what is no base64", "a.€.c"],
  ["what is no JSON", `a.${Buffer.from("{").toString("base64url")}.c`],
  ["null", `a.${Buffer.from("null").toString("base64url")}.c`],
  ["somebody else's token", foreign({ iss: "https://oidc.vercel.com", key: "sk_1" })],
  ["one whose key is no text", foreign({ iss: "sandkeep", key: 1 })],
  ["one without a key", foreign({ iss: "sandkeep", key: "" })],
  ["one with a part too many", `${makeOidcToken("sk_1", scope)}.x`],
  ["one that is far too long", makeOidcToken("x".repeat(10_000), scope)],
])("there is no key in %s", (_what, token) => {
  expect(keyOfToken(token)).toBeUndefined();
});

function foreign(claims: object): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.sig`;
}
