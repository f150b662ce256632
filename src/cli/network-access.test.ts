/** Tests of what a new sandbox may reach by --allow and --header. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { networkAccessOf } from "./network-access.ts";

const environment = { KEY: "s3cret", OTHER: "0ther", EMPTY: "" };

test("--allow alone is a line, which the daemon reads", () => {
  expect(networkAccessOf({}, environment)).toBeUndefined();
  expect(networkAccessOf({ allow: ["a.test", "b.test, 10.0.0.0/8"] }, environment)).toBe("a.test, b.test, 10.0.0.0/8");
});

test("headers get their values from variables and files, and open their domains", async () => {
  const file = join(await tempDir(), "to ken");
  writeFileSync(file, "from file\n");
  const header = [
    "api.test: Authorization: Bearer $KEY",
    `api.test:x-both:$\{OTHER}:$(< ${file})`,
    "other.test: cookie: a=$KEY; b=$OTHER",
  ];
  expect(networkAccessOf({ allow: ["B.test, 10.0.0.0/8, !10.1.0.0/16", "api.test"], header }, environment)).toEqual({
    mode: "custom",
    domains: [
      { domain: "b.test", rules: [] },
      {
        domain: "api.test",
        rules: [
          {
            action: {
              kind: "set-headers",
              headers: { authorization: "Bearer s3cret", "x-both": "0ther:from file" },
            },
          },
        ],
      },
      { domain: "other.test", rules: [{ action: { kind: "set-headers", headers: { cookie: "a=s3cret; b=0ther" } } }] },
    ],
    allowedCidrs: ["10.0.0.0/8"],
    deniedCidrs: ["10.1.0.0/16"],
  });
});

test.each([
  ["api.test: x-api-key: s3cret", /^Cannot use --header "api.test: x-api-key": its value must name a variable/],
  ["api.test: x-api-key: $NONE", /^Cannot use --header "api.test: x-api-key": the variable NONE is not set here$/],
  ["api.test: x-api-key: $EMPTY", /the variable EMPTY is not set here$/],
  ["api.test: x-api-key: $(</none/such)", /^Cannot use --header "api.test: x-api-key": ENOENT/],
  ["x-api-key: s3cret", /^Cannot use --header: it must be '<domain>: <name>: <value>'/],
  ["s3cret", /^Cannot use --header: it must be/],
])("%j is refused without a word of the secret", (text, message) => {
  const attempt = () => networkAccessOf({ header: [text] }, environment);
  expect(attempt).toThrow(message);
  expect(attempt).not.toThrow("s3cret");
});

test("a header that is given twice is refused, and so is a policy that is not a list", () => {
  const header = ["api.test: x-key: $KEY", "API.test: X-Key: $OTHER"];
  expect(() => networkAccessOf({ header }, environment)).toThrow('"api.test: x-key": it is given twice');
  const one = header.slice(0, 1);
  expect(() => networkAccessOf({ allow: ["deny-all"], header: one }, environment)).toThrow(
    'Cannot use --allow "deny-all" with --header',
  );
});
