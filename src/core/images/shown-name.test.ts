/** Tests of which name comes first for a number, and of files that are too long to change. */

import { Readable } from "node:stream";
import { expect, test } from "vitest";
import type { Files } from "../ports/runtime.ts";
import { nameChanges, withFirst } from "./shown-name.ts";

const passwd = "root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/home/old:/bin/sh\nnew:x:1000:1000::/:/bin/sh\n";

test("the name moves before the others of its number, and nothing else changes", () => {
  const changed = "root:x:0:0::/root:/bin/sh\nnew:x:1000:1000::/:/bin/sh\nold:x:1000:1000::/home/old:/bin/sh\n";
  expect(withFirst(passwd, "new", "1000")).toBe(changed);
  expect(withFirst(changed, "new", "1000")).toBe(changed);
  expect(withFirst(passwd, "root", "0")).toBe(passwd);
});

test("a group without a line of its own gets one before the others of its number", () => {
  expect(withFirst("sudo:x:27:new\nold:x:1000:\n", "new", "1000")).toBe("sudo:x:27:new\nnew:x:1000:\nold:x:1000:\n");
  expect(withFirst("sudo:x:27:new\n", "new", "1000")).toBe("sudo:x:27:new\n");
});

test.each([
  ["/etc/passwd", []],
  ["/etc/group", ["/etc/passwd"]],
])("a %s without end is read to a limit, and stays as it is", async (endless, changed) => {
  let read = 0;
  const lines = function* (length: number) {
    for (; read < Math.min(length, 64 << 20); read += 1 << 10) yield Buffer.alloc(1 << 10, "\n");
  };
  const files = {
    read(path: string, { length = Number.POSITIVE_INFINITY } = {}) {
      return Readable.from(path === endless ? lines(length) : [Buffer.from(passwd)]);
    },
  };
  const changes = await nameChanges(files as unknown as Files, "new");
  expect(changes.map(({ path }) => path)).toEqual(changed);
  expect(read).toBeLessThan(1 << 20);
});
