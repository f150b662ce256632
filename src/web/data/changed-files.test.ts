/** Marks in a tree of files: what changed, and which folders have a change below. */

import { expect, test, vi } from "vitest";

// What it imports looks at the page's address.
vi.stubGlobal("location", { origin: "http://127.0.0.1:7700", pathname: "/ui/" });
const { goneFrom, marksOf } = await import("./changed-files.ts");

const marks = marksOf(
  [
    ["/app/src/deep/a.ts", "added"],
    ["/app/b.ts", "removed"],
    ["/app/src/c.ts", "removed"],
    ["/d", "removed"],
  ],
  false,
);

test("every folder above a change is marked, and no other", () => {
  expect([...marks.folders].toSorted()).toEqual(["/app", "/app/src", "/app/src/deep"]);
  expect(marks.changes.get("/app/src/deep/a.ts")).toBe("added");
});

test("what is gone from a folder is named in that folder alone", () => {
  expect(["/app", "/app/src", "/", "/ap"].map((folder) => goneFrom(folder, marks))).toEqual([
    ["b.ts"],
    ["c.ts"],
    ["d"],
    [],
  ]);
});
