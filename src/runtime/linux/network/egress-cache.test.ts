/** The cache of the egress process's modules: made once for its sources, and readable for its user. */

import { readdirSync, statSync } from "node:fs";
import { cp, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root, tempDir } from "../../../../test/harness/harness.ts";
import { egressUser } from "../machines/plan.ts";
import { egressCache, makeEgressCache } from "./egress-cache.ts";

test("a cache is made once, for the user of the egress process", async () => {
  const clone = await tempDir();
  for (const name of ["src", "package.json"]) await cp(join(root, name), join(clone, name), { recursive: true });
  await symlink(join(root, "node_modules"), join(clone, "node_modules"));
  const command = [process.execPath, join(clone, "src/egress/main.ts")];
  expect(egressCache(command)).toBeUndefined();
  // Two daemons may start at once.
  await Promise.all([makeEgressCache(command), makeEgressCache(command)]);
  const cache = egressCache(command) ?? "";
  expect(
    readdirSync(join(clone, ".compile-cache/egress")).map((name) => join(clone, ".compile-cache/egress", name)),
  ).toEqual([cache]);
  const [ofUser = "", ...others] = readdirSync(cache);
  expect([ofUser.endsWith(`-${egressUser}`), others]).toEqual([true, []]);
  const files = readdirSync(join(cache, ofUser));
  expect(files.length).toBeGreaterThan(50);
  for (const path of [cache, join(cache, ofUser), join(cache, ofUser, files[0] ?? "")]) {
    expect(statSync(path).mode & 0o004).toBe(0o004);
    expect(statSync(path).mode & 0o022).toBe(0);
  }
});

test("an installed package needs none", async () => {
  expect(egressCache([process.execPath, "/opt/sandkeep/dist/egress/main.js"])).toBeUndefined();
});
