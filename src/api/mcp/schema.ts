/**
 * Schemas of tools: zod checks input and output, and this file prints the schemas for clients as JSON Schema.
 *
 * It removes what zod adds by itself: the bounds of safe integers, the pattern of a UUID beside its format, and an
 * empty schema for additional members, which means nothing and confuses clients with partial support for JSON Schema.
 * For the same reason, a value that may be null is `anyOf` of two types, never a list of types.
 *
 * A model reads every byte of an input's schema with every request. So the printed schema leaves out the protocol's own
 * vocabulary, patterns, and lengths of text. A call that violates one of these is refused with a message.
 */

import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { z } from "zod";
import { environment } from "../kit/environment.ts";
import { invalidWords } from "../kit/issues.ts";

/** The JSON Schema version of a schema: the protocol's own, unless a tool needs the older one. */
export type Vocabulary = "draft-7" | "draft-2020-12";

export function inputSchema<S extends z.ZodType>(schema: S, vocabulary: Vocabulary): Advertised<S> {
  return advertised(schema, vocabulary, "input");
}

export function outputSchema<S extends z.ZodType>(schema: S, vocabulary: Vocabulary): Advertised<S> {
  return advertised(schema, vocabulary, "output");
}

const notText = "a string has a NUL or half a character in it.";

/** text that kernels and databases accept: no NUL, no half a character */
export const text = (longest: number) => z.string().max(longest).refine(isText, notText);

export const path = text(4096).min(1);

export const env = environment.refine((all) => Object.entries(all).flat().every(isText), notText);

type Advertised<S extends z.ZodType> = StandardSchemaWithJSON<z.input<S>, z.output<S>>;

function advertised<S extends z.ZodType>(schema: S, target: Vocabulary, io: "input" | "output"): Advertised<S> {
  let told: Record<string, unknown> | undefined;
  const tell = () => {
    told ??= plain(z.toJSONSchema(schema, { target, io }), target === "draft-2020-12");
    return told;
  };
  return {
    "~standard": {
      version: 1,
      vendor: "sandkeep",
      validate(value) {
        const result = schema.safeParse(value);
        if (result.success) return { value: result.data };
        return { issues: [{ message: invalidWords(result.error.issues).replace(/^Invalid request: /, "") }] };
      },
      jsonSchema: { input: tell, output: tell },
    },
  };
}

/** members that a model does not need in order to call a tool */
const unsaid = ["$schema", "pattern", "propertyNames", "minLength", "maxLength"];

/** simplifies a schema and all schemas inside it; other objects have no such members and stay unchanged */
function plain(schema: object, brief: boolean): Record<string, unknown> {
  const { type, ...rest }: Record<string, unknown> = { ...schema };
  if (brief && typeof type === "string") for (const member of unsaid) delete rest[member];
  if (rest.maximum === Number.MAX_SAFE_INTEGER) delete rest.maximum;
  if (rest.minimum === Number.MIN_SAFE_INTEGER) delete rest.minimum;
  if (rest.format === "uuid") delete rest.pattern;
  if (isEmpty(rest.additionalProperties)) {
    delete rest.additionalProperties;
    if (isEmpty(rest.properties)) delete rest.properties;
  }
  const types = Array.isArray(type) ? { anyOf: type.map((each) => ({ type: each })) } : type !== undefined && { type };
  return {
    ...types,
    ...Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plainMember(value, brief)])),
  };
}

function plainMember(value: unknown, brief: boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => plainMember(each, brief));
  return typeof value === "object" && value !== null ? plain(value, brief) : value;
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function isText(value: string): boolean {
  return !value.includes("\0") && value.isWellFormed();
}
