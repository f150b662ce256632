/** Access tokens and keys: which are accepted and which refused. */

import { expect, test } from "vitest";
import { failing, fakeCore } from "../../../../test/harness/fake-core.ts";
import type { Caller } from "../../../core/model/sandbox.ts";
import { keyOf } from "./keys.ts";
import { accessToken, ownerOfToken } from "./tokens.ts";

const sign = (text: string) => Buffer.from(text).toString("hex");
const caller = { teamId: "team_default", keyId: "key_1" };
const token = accessToken({ sign }, "iabc", caller);
const known = { "access.callerOf": async (teamId: string, keyId: string): Promise<Caller> => ({ teamId, keyId }) };

test("a token authenticates as the key that it was made with, in its own sandbox", async () => {
  const { core, asked } = fakeCore(known);
  expect(await ownerOfToken({ sign, core }, "iabc", token)).toMatchObject({ projectId: "prj_default" });
  expect(asked("access.callerOf")).toEqual([["team_default", "key_1"]]);
});

test.each([
  ["of another sandbox", accessToken({ sign }, "iabd", caller)],
  ["of another key", token.replace("key_1", "key_2")],
  ["of another team", token.replace("team_default", "team_other")],
  ["with another proof", `${token.slice(0, -1)}f`],
  ["that was cut off", token.slice(0, -2)],
  ["that is empty", ""],
  ["that is endless", "a".repeat(100_000)],
])("a token %s is refused", async (_, given) => {
  const { core, calls } = fakeCore(known);
  await expect(ownerOfToken({ sign, core }, "iabc", given)).rejects.toMatchObject({ code: "unauthenticated" });
  expect(calls).toEqual([]);
});

test("a token is invalid once its key is deleted", async () => {
  const { core } = fakeCore({ "access.callerOf": failing("unauthenticated") });
  await expect(ownerOfToken({ sign, core }, "iabc", token)).rejects.toMatchObject({ code: "unauthenticated" });
});

test("a key is accepted in hexadecimal and unchanged", () => {
  const key = "sk_abcdefgh0123";
  expect(keyOf(`e2b_${Buffer.from(key).toString("hex")}`)).toBe(key);
  for (const same of [key, "e2b_", "e2b_00112233445566778899aabbccddeeff00112233", "e2b_6g", "e2b_6162"]) {
    expect(keyOf(same)).toBe(same);
  }
});
