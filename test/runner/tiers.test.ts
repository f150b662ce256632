/** Tests of the choice of unit tests: one that needs root among them would fail for every other user. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { root, tempDir } from "../harness/harness.ts";
import { testsOfOwnProcess, unitTests } from "./tiers.ts";

test("a test is a unit test unless it reaches a module that uses the host", async () => {
  const directory = await tempDir();
  const files = {
    "src/pure.test.ts": 'import { a } from "./pure.ts";\n',
    "src/direct.test.ts": 'import { needs } from "../test/runner/needs.ts";\n',
    "src/indirect.test.ts": 'import {\n  b,\n  c,\n} from "../test/fixture.ts";\n',
    "src/types.test.ts": 'import type { B } from "../test/fixture.ts";\n',
    "src/hours.slow.test.ts": "",
    "test/fixture.ts": 'export { needs } from "./runner/needs.ts";\nimport "./fixture.test.ts";\n',
    "test/runner/needs.ts": 'import { b } from "../fixture.ts";\n',
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  expect(unitTests(directory)).toEqual(["src/pure.test.ts", "src/types.test.ts"]);
});

test("in this repository the core's tests are unit tests, and those with a daemon are not", () => {
  const found = unitTests(root);
  expect(found).toContain("src/core/sessions/states.test.ts");
  expect(found).toContain("test/runner/tiers.test.ts");
  expect(found).not.toContain("test/e2e/daemon/daemon.test.ts");
  expect(found).toContain("test/house/vendors.test.ts");
  expect(found).not.toContain("test/house/style.test.ts");
});

test("tests that redirect their process or set its environment have one of their own", () => {
  const found = testsOfOwnProcess(root);
  expect(found).toContain("test/e2e/vercel/sandboxes.test.ts");
  expect(found).toContain("test/e2e/e2b/sandboxes.test.ts");
  expect(found).toContain("test/runtime/directory.test.ts");
  expect(found).not.toContain("test/e2e/daemon/daemon.test.ts");
  expect(found).not.toContain("test/security/seccomp.test.ts");
});
