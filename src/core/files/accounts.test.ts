/** Tests of users and groups in hostile files, and of how a user's paths resolve. */

import { expect, test } from "vitest";
import { Accounts } from "./accounts.ts";
import { inHome } from "./user-files.ts";

const passwd = [
  "root:x:0:0:root:/root:/bin/bash",
  "first:x:1000:1000::/home/first:",
  "user:x:1000:1000::/home/user:",
  "user:x:0:0::/root:",
  "relative:x:5:5::home:",
  "huge:x:99999999999:1::/:",
  "negative:x:-1:1::/:",
  "short:x:1",
  ":x:7:7::/:",
].join("\n");

test("users are found by name, and by id with the preferred name", () => {
  const accounts = new Accounts(passwd, "root:x:0:\nstaff:x:50:user\n");
  expect(accounts.user("user")).toEqual({ name: "user", uid: 1000, gid: 1000, home: "/home/user" });
  expect(accounts.user("relative")?.home).toBe("/");
  for (const none of ["huge", "negative", "short", "", "stranger"]) expect(accounts.user(none)).toBeUndefined();
  expect([accounts.userName(1000), accounts.userName(1000, ["user"]), accounts.userName(0, ["user"])]).toEqual([
    "first",
    "user",
    "root",
  ]);
  expect([accounts.groupName(50), accounts.groupName(1000, ["user"]), accounts.groupName(1000)]).toEqual([
    "staff",
    "user",
    "1000",
  ]);
  expect(accounts.userName(4711)).toBe("4711");
});

test("a sandbox without these files still has a root", () => {
  expect(new Accounts("", "").user("root")).toMatchObject({ uid: 0, home: "/root" });
});

test.each([
  ["", "/work"],
  ["~", "/home/u"],
  ["~/a", "/home/u/a"],
  ["~other", "/home/u/~other"],
  ["a/../b", "/home/u/b"],
  ["../../../etc", "/etc"],
  ["/abs//x/.", "/abs/x"],
])('the path "%s" of a user resolves to %s', (path, where) => {
  expect(inHome("/home/u", "/work", path)).toBe(where);
});
