/**
 * Schemas of tools: zod checks what comes in and goes out, and this is how it is told to clients, in JSON Schema.
 *
 * What zod adds of its own accord is taken out again: the bounds of safe integers, the pattern of a UUID beside its
 * format, and an empty schema for further members, which says nothing and which clients with a narrower idea of JSON
 * Schema stumble over. A value that may be null is `anyOf` of two types for the same reason, never a list of types.
 *
 * Every byte of an input's schema is read by a model with every request. The protocol's own vocabulary is therefore not
 * named, and neither are patterns and lengths of text: a call that breaks one is refused with a sentence.
 */

import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { z } from "zod";
import { environment } from "../kit/environment.ts";
import { invalidWords } from "../kit/issues.ts";

/** The vocabulary that a schema says it is written in; without a reason for the older one, the protocol's own. */
export type Vocabulary = "draft-7" | "draft-2020-12";

export function inputSchema<S extends z.ZodType>(schema: S, vocabulary: Vocabulary): Advertised<S> {
  return advertised(schema, vocabulary, "input");
}

export function outputSchema<S extends z.ZodType>(schema: S, vocabulary: Vocabulary): Advertised<S> {
  return advertised(schema, vocabulary, "output");
}

const notText = "a string has a NUL or half a character in it.";

/** text that a kernel and a database take: no NUL, no half a character */
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

/** of every schema inside, too: what is none has no such members */
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
