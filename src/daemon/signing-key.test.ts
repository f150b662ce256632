/** The file of the key that signs tokens. */

import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { signingKeyIn } from "./signing-key.ts";

test("the key stays the same, readable by nobody else, and shows its public half alone", async () => {
  const file = join(await tempDir(), "oidc.key");
  const made = signingKeyIn(file)();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(signingKeyIn(file)()).toEqual(made);
  expect(readFileSync(file, "utf8")).toBe(made.key);
  const [shown = {}] = made.jwks.keys;
  expect(Object.keys(shown).sort()).toEqual(["alg", "e", "kid", "kty", "n", "use"]);
  writeFileSync(file, "nonsense");
  expect(signingKeyIn(file)).toThrow(`Cannot sign tokens: "${file}" is not a private key`);
});
