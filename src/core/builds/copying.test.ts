/** Tests of which files the sources of a copy match, and what a step's cache key depends on. */

import { expect, test } from "vitest";
import type { RunAction } from "./build-plan.ts";
import { type CopyFiles, matchesOf } from "./copying.ts";
import { baseKey, stepKey } from "./step-keys.ts";

const tree: Record<string, string[]> = {
  "/": ["a.c", "b.c", "dir", "[x]"],
  "/dir": ["c.c", "sub"],
  "/dir/sub": ["d.h"],
};
const files: CopyFiles = {
  async find(path) {
    if (tree[path]) return { path, isDirectory: true };
    const at = path.lastIndexOf("/");
    const isThere = tree[path.slice(0, at) || "/"]?.includes(path.slice(at + 1));
    return isThere ? { path, isDirectory: false } : undefined;
  },
  names: async (directory) => tree[directory] ?? [],
  archive: async function* () {},
};

test("a source names a file, a directory or everything that its wildcards match", async () => {
  const paths = async (source: string) => (await matchesOf(files, source)).map(({ path }) => path);
  expect(await paths("a.c")).toEqual(["/a.c"]);
  expect(await paths("./*.c")).toEqual(["/a.c", "/b.c"]);
  expect(await paths("/dir/")).toEqual(["/dir"]);
  expect(await paths("d?r/*/*.h")).toEqual(["/dir/sub/d.h"]);
  expect(await paths("\\[x]")).toEqual(["/[x]"]);
  expect(await paths(".")).toEqual(["/"]);
  await expect(paths("*.none")).rejects.toThrow('"*.none" names nothing that can be copied');
  await expect(paths("a.c/*")).rejects.toThrow("names nothing");
});

test("wildcards that take too long to compare are refused, over all sources of a build", async () => {
  const steps = { left: 200 };
  expect(await matchesOf(files, "*.c", steps)).toHaveLength(2);
  await expect(Promise.all(Array.from({ length: 20 }, () => matchesOf(files, "*.c", steps)))).rejects.toMatchObject({
    code: "limit",
  });
  await expect(matchesOf(files, "*a".repeat(200))).rejects.toThrow("is longer than 255 characters");
});

test("a step has another key when anything that it depends on is different, and only then", () => {
  const action: RunAction = { kind: "run", argv: ["x"], env: { A: "1", B: "2" }, user: "root", cwd: "/" };
  const parent = baseKey("team_a", { digest: "d" });
  const network = { mode: "allow-all" } as const;
  const key = stepKey({ parent, action, network });
  expect(stepKey({ parent, action: { ...action, env: { B: "2", A: "1" } }, network })).toBe(key);
  const others = [
    stepKey({ parent: baseKey("team_b", { digest: "d" }), action, network }),
    stepKey({ parent: baseKey("team_a", "scratch"), action, network }),
    stepKey({ parent, action: { ...action, env: { A: "1" } }, network }),
    stepKey({ parent, action: { ...action, argv: ["y"] }, network }),
    stepKey({ parent, action: { ...action, user: "1" }, network }),
    stepKey({ parent, action, network: { mode: "deny-all" } }),
  ];
  expect(new Set([key, ...others]).size).toBe(7);
  expect(stepKey({ parent, action: { kind: "setting" }, network })).toBe(parent);
  const copy = { kind: "copy" as const, from: { stage: 1 }, sources: ["a"], inline: [], target: "/" };
  const copied = stepKey({ parent, action: copy, network, copied: ["k"] });
  expect(stepKey({ parent, action: { ...copy, from: { stage: 2 } }, network, copied: ["k"] })).toBe(copied);
  expect(stepKey({ parent, action: { ...copy, from: "context" }, network, copied: ["k"] })).not.toBe(copied);
  expect(stepKey({ parent, action: { ...copy, mode: 0o600 }, network, copied: ["k"] })).not.toBe(copied);
});
