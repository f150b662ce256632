/** Names of images in registries. */

import { expect, test } from "vitest";
import { wantedImage } from "../../../core/images/images.ts";
import { fullName, parseReference, storedName } from "./reference.ts";

test.each([
  ["alpine", "docker.io/library/alpine:latest", "alpine"],
  ["alpine:3.20", "docker.io/library/alpine:3.20", "alpine:3.20"],
  ["docker.io/user/app", "docker.io/user/app:latest", "user/app"],
  ["registry-1.docker.io/library/alpine:V1", "docker.io/library/alpine:V1", "alpine:V1"],
  ["localhost/app:1", "localhost/app:1", "localhost/app:1"],
  ["host:5000/a/b/c:x", "host:5000/a/b/c:x", "host:5000/a/b/c:x"],
])("%s is %s", (text, full, stored) => {
  expect(fullName(parseReference(text))).toBe(full);
  expect(storedName(parseReference(text))).toBe(stored);
});

test.each(["r.test/app:1", "r.test:5000/app", "docker.io/library/app", "app:1", "user/app"])(
  "a create that names %s by digest looks for the name that a pull by digest gives it",
  (name) => {
    const text = `${name}@sha256:${"a".repeat(64)}`;
    expect(wantedImage(text).candidates).toEqual([storedName(parseReference(text))]);
  },
);

test.each([
  "",
  "UPPER",
  "a//b",
  "../x",
  "host:99999999/x",
  "x:",
  "x:a b",
  "x@sha256:12",
  "x@md5:1",
  "a@b@c",
  "-x",
  "x\0",
])('"%s" names nothing that can be pulled', (text) => expect(() => parseReference(text)).toThrow(/^Cannot pull /));
