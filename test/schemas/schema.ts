/** How the JSON schemas of the vendors' answers are written down, and how an answer is held against one of them. */

import { Ajv, type AnySchemaObject } from "ajv";

export type Schema = AnySchemaObject;

type Members = Record<string, Schema>;

export const string: Schema = { type: "string" };
export const number: Schema = { type: "number" };
export const integer: Schema = { type: "integer" };
export const boolean: Schema = { type: "boolean" };
/** an object about whose members nothing is said */
export const anyObject: Schema = { type: "object" };

export function oneOf(...values: string[]): Schema {
  return { type: "string", enum: values };
}

export function arrayOf(items: Schema): Schema {
  return { type: "array", items };
}

export function orNull(schema: Schema): Schema {
  return { anyOf: [schema, { type: "null" }] };
}

/** an object that has the first members and may have the second; others are allowed, as long as nothing else says so */
export function object(required: Members, optional: Members = {}): Schema {
  return { type: "object", required: Object.keys(required), properties: { ...required, ...optional } };
}

/** an object with exactly these members */
export function exactly(required: Members): Schema {
  return { ...object(required), additionalProperties: false };
}

const ajv = new Ajv();

/** What is wrong with an answer, by the path of each member that does not fit; an empty list if nothing is. */
export function violations(schema: Schema, answer: unknown): string[] {
  const validate = ajv.compile(schema);
  if (validate(answer)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || "/"} ${message ?? ""}`);
}

/** The schema without its prose: what it says about names, types, bounds and what is required. */
export function structureOf(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(structureOf);
  if (typeof schema !== "object" || schema === null) return schema;
  const { description, title, $schema, ...rest } = schema as Record<string, unknown>;
  // A member may be called "description": there it is a schema, where prose is a string.
  const kept = { ...rest, ...Object.fromEntries(Object.entries({ description, title }).filter(isMember)) };
  return Object.fromEntries(Object.entries(kept).map(([name, value]) => [name, structureOf(value)]));
}

function isMember([, value]: [string, unknown]): boolean {
  return typeof value === "object" && value !== null;
}
