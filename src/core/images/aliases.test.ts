/** Aliases of images: those that were set and those of the settings, and who changes them. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import { ImageAliases } from "./aliases.ts";

const admin = { teamId: "team_default", admin: true };
const member = { teamId: "team_ml" };

function aliasesOf(imageAliases: Record<string, string>, set: Record<string, string>) {
  const images = {
    aliases: async () => set,
    setAlias: async (pattern: string, image: string) => {
      set[pattern] = image;
    },
    deleteAlias: async (pattern: string) => {
      delete set[pattern];
    },
  };
  // The service uses nothing else of the runtime.
  return new ImageAliases({ imageAliases, runtime: { images } as unknown as Context["runtime"] });
}

test("an alias that was set goes before one of the settings, which comes back when it is deleted", async () => {
  const aliases = aliasesOf({ "tools:*": "debian", base: "host" }, {});
  await aliases.set(admin, "base", "alpine");
  const setting = { pattern: "tools:*", image: "debian", isSetting: true };
  expect(await aliases.list(member)).toEqual([{ pattern: "base", image: "alpine", isSetting: false }, setting]);
  await aliases.delete(admin, "base");
  expect(await aliases.list(member)).toEqual([{ pattern: "base", image: "host", isSetting: true }, setting]);
});

test("an alias of the settings is not deleted", async () => {
  const deleting = aliasesOf({ base: "host" }, {}).delete(admin, "base");
  await expect(deleting).rejects.toMatchObject({ code: "conflict", message: expect.stringMatching(/settings/) });
});

test("only an admin key changes aliases", async () => {
  const aliases = aliasesOf({}, { base: "host" });
  await expect(aliases.set(member, "x", "host")).rejects.toMatchObject({ code: "forbidden" });
  await expect(aliases.delete(member, "base")).rejects.toMatchObject({ code: "forbidden" });
  expect(await aliases.list(member)).toHaveLength(1);
});
