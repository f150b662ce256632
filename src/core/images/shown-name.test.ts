/** Tests of which name comes first for a number. */

import { expect, test } from "vitest";
import { withFirst } from "./shown-name.ts";

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
