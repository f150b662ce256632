/** The project of a page, from its address. */

import { beforeEach, expect, test, vi } from "vitest";

beforeEach(() => vi.resetModules());

async function at(pathname: string) {
  vi.stubGlobal("location", { pathname });
  return import("./place.ts");
}

test("an address without a project is about that of the key", async () => {
  const { place, root, isHere } = await at("/ui/sandboxes/demo");
  expect([place, root]).toEqual([undefined, "/ui/"]);
  expect([isHere("/ui/keys"), isHere("/ui/in/ml/web/keys")]).toEqual([true, false]);
});

test("an address may begin with a team and a project, however its characters are written", async () => {
  const { place, root, isHere, rootOf } = await at("/ui/in/ml/a@b%C3%A9/sandboxes");
  expect([place, root]).toEqual([{ team: "ml", project: "a@bé" }, "/ui/in/ml/a@b%C3%A9/"]);
  expect([isHere("/ui/in/ml/a@b%C3%A9/keys"), isHere("/ui/keys"), isHere("/ui/in/ml/web/")]).toEqual([
    true,
    false,
    false,
  ]);
  expect(rootOf({ team: "ml", project: "a b" })).toBe("/ui/in/ml/a%20b/");
});

test.each(["/ui/in/ml", "/ui/in/ml/%ff/keys"])("%s names no project", async (pathname) => {
  expect((await at(pathname)).place).toBeUndefined();
});
