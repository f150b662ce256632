/** Which row of the mount table a request matches. */

import { expect, test } from "vitest";
import type { Mount } from "../dialect.ts";
import { MountTable } from "./mount-table.ts";

const app = { fetch: () => new Response() };
const byPath: Mount = { path: /^\/v1\//, app };
const byMethod: Mount = { path: /^\/$/, methods: ["GET"], app };
const byHost: Mount = { path: /^\//, host: /^\d+-sb-[a-z]+\.example\.com$/, app };
const byHeader: Mount = { path: /^\/v1\//, headers: (headers) => headers.has("x-api-key"), app };
const table = new MountTable([
  { wire: "one", mounts: [byHost, byHeader] },
  { wire: "other", mounts: [byPath, byMethod] },
]);

test.each([
  ["a path", "http://localhost/v1/x", {}, byPath],
  ["a header, before a row below that it fits too", "http://localhost/v1/x", { "x-api-key": "k" }, byHeader],
  ["a host name, whatever its letters and port", "http://h/v1/x", { host: "8080-SB-abc.example.com:7700" }, byHost],
  ["a method", "http://localhost/", {}, byMethod],
] as const)("a request matches by %s", (_, url, headers, wanted) => {
  expect(table.find(new Request(url, { headers }))).toMatchObject(wanted);
});

test("a request that matches no row finds no mount", () => {
  expect(table.find(new Request("http://localhost/", { method: "POST" }))).toBeUndefined();
  expect(table.find(new Request("http://localhost/v2/x", { headers: { host: "example.com" } }))).toBeUndefined();
});

test("only hosts that a row names are served", () => {
  expect(table.servesHost("1-sb-x.example.com:80")).toBe(true);
  for (const other of ["example.com", "sb-x.example.com", "", undefined, "a b"]) {
    expect(table.servesHost(other)).toBe(false);
  }
});
