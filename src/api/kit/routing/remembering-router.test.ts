/** The router that remembers the latest paths, with a router of Hono and alone. */

import { Hono } from "hono";
import { expect, test } from "vitest";
import { RememberingRouter } from "./remembering-router.ts";

test("a remembered path leads to the same route, with its own parameters", async () => {
  const app = new Hono({ router: new RememberingRouter() });
  app.get("/things/:id", (c) => c.text(`got ${c.req.param("id")}`));
  app.post("/things/:id", (c) => c.text(`changed ${c.req.param("id")}`));
  const answer = async (path: string, method = "GET") => (await app.request(path, { method })).text();
  for (const _ of [1, 2]) {
    expect(await answer("/things/a")).toBe("got a");
    expect(await answer("/things/b")).toBe("got b");
    expect(await answer("/things/a", "POST")).toBe("changed a");
    expect((await app.request("/others")).status).toBe(404);
  }
});

test("a search runs once for each of the latest paths", () => {
  const router = new RememberingRouter<string>();
  router.add("GET", "/:id", "first");
  const found = router.match("GET", "/a");
  expect(router.match("GET", "/a")).toBe(found);
  for (let i = 0; i < 1000; i++) router.match("GET", `/${i}`);
  expect(router.match("GET", "/a")).not.toBe(found);
});

test("a route that is added later is found on a remembered path", () => {
  const router = new RememberingRouter<string>();
  router.add("GET", "/:id", "first");
  router.match("GET", "/a");
  router.add("GET", "/a", "second");
  expect(router.match("GET", "/a")[0].map(([handler]) => handler)).toEqual(["first", "second"]);
});
