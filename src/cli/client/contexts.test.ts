/** Tests of contexts: when one counts, and that its key goes nowhere else. */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { contextFile, readContexts, withContext, writeContexts } from "./contexts.ts";

const folder = mkdtempSync(join(tmpdir(), "sandkeep-contexts-"));
const environment = { XDG_CONFIG_HOME: folder };
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(() => {
  expect(withContext([], environment)).toBe(environment);
  const contexts = {
    work: { url: "https://work.test", key: "sk_work" },
    home: { url: "https://home.test", key: "sk_home" },
  };
  writeContexts({ current: "work", contexts }, environment);
});

test("the chosen context counts, and SANDKEEP_CONTEXT chooses another", () => {
  expect(withContext(["ls"], environment)).toMatchObject({
    SANDKEEP_URL: "https://work.test",
    SANDKEEP_API_KEY: "sk_work",
  });
  const other = { ...environment, SANDKEEP_CONTEXT: "home", SANDKEEP_PORT: "1" };
  expect(withContext([], other)).toMatchObject({ SANDKEEP_URL: "https://home.test", SANDKEEP_API_KEY: "sk_home" });
  expect(() => withContext([], { ...environment, SANDKEEP_CONTEXT: "hme" })).toThrow(/Did you mean "home"\?/);
});

test("its key goes to no address that an option or a variable names", () => {
  for (const args of [["--url", "http://x"], ["--url=http://x"], ["--data-dir", "/x"]])
    expect(withContext(args, environment)).toBe(environment);
  expect(withContext(["--", "--url"], environment).SANDKEEP_API_KEY).toBe("sk_work");
  for (const name of ["SANDKEEP_URL", "SANDKEEP_API_KEY", "SANDKEEP_PORT"]) {
    const given = { ...environment, [name]: "x" };
    expect(withContext([], given)).toBe(given);
  }
});

test("only its user may read the file", () => {
  expect(statSync(contextFile(environment)).mode & 0o777).toBe(0o600);
  expect(readContexts(environment).current).toBe("work");
});
