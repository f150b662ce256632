/** Keys: which of them a caller may take away. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import { Access } from "./access.ts";

test("only an admin key renames or deletes an admin key", async () => {
  const keys = new Map([
    ["key_admin", { id: "key_admin", teamId: "team_1", admin: true }],
    ["key_other", { id: "key_other", teamId: "team_1" }],
  ]);
  const context = {
    store: {
      listKeys: async () => [...keys.values()],
      renameKey: async (_: string, id: string) => keys.get(id),
      deleteKey: async (_: string, id: string) => keys.delete(id),
    },
    now: () => 0,
  } as unknown as Context; // these methods use nothing else
  const access = new Access(context, { hash: (text) => text });
  const [plain, admin] = [{ teamId: "team_1" }, { teamId: "team_1", admin: true }];
  await expect(access.deleteKey(plain, "key_admin")).rejects.toMatchObject({ code: "forbidden" });
  await expect(access.renameKey(plain, "key_admin", "x")).rejects.toMatchObject({ code: "forbidden" });
  await access.deleteKey(plain, "key_other");
  expect([...keys.keys()]).toEqual(["key_admin"]);
  await access.deleteKey(admin, "key_admin");
  expect(keys.size).toBe(0);
});
