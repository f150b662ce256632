/** Two trees on the host's disk, read by the guest's own file code, are compared. */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { useFileGuest } from "../../../../test/harness/guest/file-guest.ts";
import type { FileSession } from "../files/file-session.ts";
import { type ComparisonLimits, compareTrees, Tree } from "./tree-comparison.ts";

const guest = useFileGuest();
const folder = mkdtempSync(join(tmpdir(), "sandkeep-comparison-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a page has at most its limit, and the pages together have every change once, in order", async () => {
  const [from, to] = [tree("paged-from", ["a", "b/1", "b/2", "c/x/y", "d"]), tree("paged-to", ["b/2", "b/3", "b.txt"])];
  const whole = await compared(from, to, { limit: 100 });
  expect(whole).toEqual([..."-/a -/b/1 +/b/3 +/b.txt -/c -/c/x -/c/x/y -/d".split(" ")]);
  for (const limit of [1, 2, 3, 8]) expect(await compared(from, to, { limit })).toEqual(whole);
});

test("a page ends after a number of files, also if nothing differs, and the next one goes on", async () => {
  const names = ["a/1", "a/2", "b/1", "b/2", "c/d/e/1", "c/d/e/2", "z"];
  const [from, to] = [tree("many-from", names), tree("many-to", [...names, "zz"])];
  const limits = { listedAtOnce: 6, mostInDirectory: 100 };
  const pages: string[][] = [];
  expect(await compared(from, to, { limit: 100 }, limits, pages)).toEqual(["+/zz"]);
  expect(pages.length).toBeGreaterThan(1);
  expect(pages[0]).toEqual([]);
});

test("a directory with too many files is left out, and the answer says so", async () => {
  const crowd = Array.from({ length: 50 }, (_, index) => `crowd/${index}`);
  const [from, to] = [tree("crowd-from", ["a", "crowd/1"]), tree("crowd-to", [...crowd, "z"])];
  const limits = { listedAtOnce: 1000, mostInDirectory: 20 };
  const { changes, next, truncated } = await compareTrees(open(from), open(to), { limit: 100 }, limits);
  expect(changes.map(({ path }) => path)).toEqual(["/a", "/z"]);
  expect([next, truncated]).toEqual([undefined, true]);
});

test("names that are not text, and a mark of a deleted file, are compared as they are", async () => {
  const [from, to] = [tree("odd-from", []), tree("odd-to", ["deleted/x"])];
  for (const byte of [0xfe, 0xff]) writeFileSync(Buffer.concat([Buffer.from(`${to}/`), Buffer.from([byte])]), "");
  execFileSync("mknod", [join(to, "gone"), "c", "0", "0"]);
  expect(await compared(from, to, { limit: 1 })).toEqual([
    "+/deleted",
    "+/deleted/x",
    "-/gone",
    "+/\ufffd",
    "+/\ufffd",
  ]);
});

test("a cursor that is not ours is refused", async () => {
  const at = tree("cursor", []);
  await expect(compareTrees(open(at), open(at), { limit: 1, after: "no cursor" })).rejects.toThrow(/not one of ours/);
});

function tree(name: string, files: string[]): string {
  const root = join(folder, name);
  for (const file of ["", ...files]) {
    const path = join(root, file);
    mkdirSync(file === "" ? path : join(path, ".."), { recursive: true });
    if (file !== "") writeFileSync(path, "text", { flag: "w" });
  }
  // Otherwise equal files would have different times.
  execFileSync("find", [root, "-exec", "touch", "-h", "-d", "@1000000000", "{}", "+"]);
  return root;
}

/** the tree below a folder: its connections see the whole host */
function open(root: string): Tree {
  return new Tree(async () => {
    const session = await guest.connect();
    const below = (path: string | Buffer) => Buffer.concat([Buffer.from(root), Buffer.from(path)]);
    return new Proxy(session, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        const hasPath = name === "list" || name === "walk";
        return (path: string, ...rest: unknown[]) =>
          Reflect.apply(value, target, [hasPath ? below(path) : path, ...rest]);
      },
    }) as FileSession;
  });
}

/** every change of all pages, as its sign and its path */
async function compared(
  from: string,
  to: string,
  options: { limit: number },
  limits?: ComparisonLimits,
  pages: string[][] = [],
): Promise<string[]> {
  const signs = { added: "+", changed: "*", removed: "-" };
  for (let after: string | undefined; ; ) {
    const trees = [open(from), open(to)] as const;
    const page = await compareTrees(...trees, { ...options, after }, limits);
    for (const each of trees) each.close();
    pages.push(page.changes.map(({ path, change }) => signs[change] + path));
    if (page.next === undefined) return pages.flat();
    after = page.next;
  }
}
