/** How schemas are printed for clients, and the messages about invalid values. */

import { expect, test } from "vitest";
import { z } from "zod";
import { inputSchema, outputSchema, text } from "./schema.ts";

const told = (schema: z.ZodType, io: "input" | "output" = "output") =>
  (io === "input" ? inputSchema : outputSchema)(schema, "draft-7")["~standard"].jsonSchema[io]({ target: "draft-07" });

test("what zod adds by itself is removed, also in nested schemas", () => {
  const schema = z.strictObject({
    id: z.uuid(),
    count: z.int().min(1),
    any: z.looseObject({}),
    list: z.array(z.union([z.int(), z.null()]).describe("Perhaps.")),
    type: z.enum(["a", "b"]),
  });
  expect(told(schema)).toEqual({
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: {
      id: { type: "string", format: "uuid" },
      count: { type: "integer", minimum: 1 },
      any: { type: "object" },
      list: { type: "array", items: { anyOf: [{ type: "integer" }, { type: "null" }], description: "Perhaps." } },
      type: { type: "string", enum: ["a", "b"] },
    },
    required: ["id", "count", "any", "list", "type"],
    additionalProperties: false,
  });
});

test("a member with a default may be left out of the input", () => {
  const schema = z.strictObject({ limit: z.int().max(9).default(3) });
  expect(told(schema, "input")).not.toHaveProperty("required");
  expect(inputSchema(schema, "draft-7")["~standard"].validate({})).toEqual({ value: { limit: 3 } });
});

test.each([
  [{}, "missing required property `name`."],
  [{ name: 7 }, "`name` should be string."],
  [{ name: "a\0" }, "a string has a NUL or half a character in it."],
  [{ name: "\ud800" }, "a string has a NUL or half a character in it."],
  [{ name: "abcdef" }, "`name` should NOT be longer than 5 characters."],
  [{ name: "a", more: 1 }, "should NOT have additional property `more`."],
])("%j is refused with one sentence", async (value, message) => {
  const schema = inputSchema(z.strictObject({ name: text(5) }), "draft-7");
  expect(await schema["~standard"].validate(value)).toEqual({ issues: [{ message }] });
});

test("the schema leaves out what a model does not need, but keeps arguments of any name", () => {
  const schema = z.strictObject({
    pattern: z.string().min(1).max(9).regex(/^a/).describe("A text."),
    env: z.record(z.string().regex(/^A/), z.string().max(5)),
    type: z.enum(["a", "b"]),
  });
  const brief = inputSchema(schema, "draft-2020-12")["~standard"].jsonSchema.input({ target: "draft-2020-12" });
  expect(brief).toEqual({
    type: "object",
    properties: {
      pattern: { type: "string", description: "A text." },
      env: { type: "object", additionalProperties: { type: "string" } },
      type: { type: "string", enum: ["a", "b"] },
    },
    required: ["pattern", "env", "type"],
    additionalProperties: false,
  });
});
