/** Tests of users and groups in hostile files, and of how a user's paths resolve. */

import { expect, test } from "vitest";
import type { Machine } from "../ports/runtime.ts";
import { Accounts, accountOf } from "./accounts.ts";
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

test("users beyond the first 5000 lines are not there, but root is", () => {
  const accounts = new Accounts(`near:x:1:1::/:\n${"\n".repeat(5000)}far:x:2:2::/:\n`, "");
  expect(accounts.user("near")).toBeDefined();
  expect(accounts.user("far")).toBeUndefined();
  expect(accounts.user("root")).toBeDefined();
});

test("a name that is not there is looked up again at once, and then not more often than the files may be read", async () => {
  let passwd = "";
  const lengths: unknown[] = [];
  const files = {
    stat: async () => ({ type: "file" }),
    async *read(path: string, { length }: { length: number }) {
      if (path !== "/etc/passwd") return;
      lengths.push(length);
      yield Buffer.from(passwd);
    },
    together: (use: (kept: object) => unknown) => use(files),
  };
  const machine = { files: () => files } as unknown as Machine;
  await expect(accountOf(machine, "late", 1000)).rejects.toThrow("Cannot find the user");
  expect(lengths).toEqual([128 << 10, 128 << 10]);
  for (const now of [1000, 1100, 1249]) await expect(accountOf(machine, "late", now)).rejects.toThrow();
  expect(lengths).toHaveLength(2);
  passwd = "late:x:5:5::/:\n";
  expect((await accountOf(machine, "late", 1250)).uid).toBe(5);
  expect(lengths).toHaveLength(3);
  passwd += "later:x:6:6::/:\n";
  expect((await accountOf(machine, "later", 1500)).uid).toBe(6);
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

test("a user is found as images name it: by name or number, with or without a group", () => {
  const accounts = new Accounts("app:x:1000:1000::/home/app:/bin/sh\n", "www:x:33:\n");
  const app = { name: "app", uid: 1000, gid: 1000, home: "/home/app" };
  expect(accounts.user("1000")).toEqual(app);
  expect(accounts.user("app:www")).toEqual({ ...app, gid: 33 });
  expect(accounts.user("1000:44")).toEqual({ ...app, gid: 44 });
  expect(accounts.user("1001")).toEqual({ name: "1001", uid: 1001, gid: 1001, home: "/" });
  for (const none of ["", "nobody-here", "app:none", "70000", "app:70000", ":33"]) {
    expect(accounts.user(none), none).toBeUndefined();
  }
});
