/** Which images Vercel's names mean. */

import { expect, test } from "vitest";
import { pinnedName, wantedImage } from "./image-names.ts";

const digest = "0123456789abcdef".repeat(4);

test.each([
  ["universal", "universal", "the-default"],
  ["vercel/sandbox/universal:latest", "universal", "the-default"],
  ["vcr.vercel.com/vercel/sandbox/universal", "universal", "the-default"],
  ["node:24", "node:24", "the-default"],
  ["vercel/sandbox/node", "node", "the-default"],
  ["node:22", "node:22", "default-and-say-so"],
  ["python:3.14", "python:3.14", "default-and-say-so"],
  ["arch", "arch", "default-and-say-so"],
  ["vcr.vercel.com/vercel/sandbox/ubuntu:latest", "ubuntu", "default-and-say-so"],
  [`vercel/sandbox/ubuntu@sha256:${digest}`, "ubuntu", "default-and-say-so"],
  ["vcr.vercel.com/vercel/eve/base:1.2.3", "vercel/eve/base:1.2.3", "default-and-say-so"],
  ["my-repo:v1", "my-repo:v1", undefined],
  [`vcr.vercel.com/team/my-repo:v1@sha256:${digest}`, "team/my-repo:v1", undefined],
  ["localhost:5000/x", "x", undefined],
])("%s is %s, or %s", (name, candidate, otherwise) => {
  const wanted = wantedImage(name);
  expect(wanted.candidates).toContain(candidate);
  expect(wanted.otherwise).toBe(otherwise);
  expect(wanted.digest).toBe(name.includes("@") ? digest : undefined);
});

test.each([
  ["vcr.vercel.com/acme/base", "vcr.vercel.com/acme/base:latest"],
  ["acme/base:7", "vcr.vercel.com/acme/base:7"],
  [`ghcr.io/acme/base@sha256:${digest}`, "ghcr.io/acme/base:latest"],
])("%s has aliases of %s too", (name, other) => {
  expect(wantedImage(name).others).toContain(other);
});

test.each(["universal:", "universal@sha256:zz", "universal:latest@", "a:b c", `a@md5:${digest}`])(
  "%s is not a valid image name",
  (name) => {
    expect(() => wantedImage(name)).toThrow(`Invalid request: \`image\` "${name}" cannot be used: `);
  },
);

test("answers name the repository and the digest", () => {
  expect(pinnedName(undefined, digest)).toBe(`vercel/sandbox/universal@sha256:${digest}`);
  expect(pinnedName("my-repo:v1", digest)).toBe(`my-repo@sha256:${digest}`);
  expect(pinnedName("my-repo:v1", undefined)).toBe("my-repo");
});
