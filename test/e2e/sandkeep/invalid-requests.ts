/** Requests to operations of a document: the smallest valid one, and every kind of invalid one. */

import { expect } from "vitest";
import { type DocumentClient, type Documented, parametersOf, type Sent } from "./document.ts";

/** a request with the required parameters and members only */
export function minimal(api: DocumentClient, operation: Documented): Sent {
  const query = parametersOf(operation, "query").filter(({ required }) => required);
  const schema = operation.requestBody?.content["application/json"]?.schema;
  const isBytes = operation.requestBody !== undefined && schema === undefined;
  return {
    query: Object.fromEntries(query.map(({ name, schema: wanted }) => [name, example(api, wanted)])),
    ...(schema && { body: example(api, schema) }),
    ...(isBytes && { bytes: new Uint8Array(0) }),
  };
}

/** the smallest value that a schema accepts, as far as schemas of this document go */
function example(api: DocumentClient, given: Record<string, unknown>): unknown {
  const schema = api.resolved(given);
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (Array.isArray(schema.anyOf)) return example(api, schema.anyOf[0]);
  if (schema.type === "object") {
    const properties = (schema.properties ?? {}) as Record<string, Record<string, unknown>>;
    const required = (schema.required ?? []) as string[];
    return Object.fromEntries(required.map((name) => [name, example(api, properties[name] ?? {})]));
  }
  if (schema.type === "array") return [];
  if (schema.type === "integer" || schema.type === "number") return schema.minimum ?? 1;
  if (schema.type === "boolean") return true;
  return schema.minLength === 1 && schema.maxLength === 16_384 ? "deny-all" : "example";
}

/** longest text in a query that a test sends */
const longestText = 8192;

/** invalid requests, each with the reason why it is */
export function* invalidRequests(
  api: DocumentClient,
  operation: Documented,
  things: Record<string, string>,
): Generator<[string, Sent]> {
  const valid = minimal(api, operation);
  yield ["no key", { ...valid, key: null }];
  yield ["a wrong key", { ...valid, key: "sk_wrong" }];
  yield ["parameter surprise", { ...valid, query: { ...valid.query, surprise: "1" } }];
  for (const { name, schema, required } of parametersOf(operation, "query")) {
    for (const value of wrongTexts(api.resolved(schema))) {
      yield [`parameter ${name} is ${value.slice(0, 20)}`, { ...valid, query: { ...valid.query, [name]: value } }];
    }
    if (required) {
      const { [name]: _, ...others } = valid.query ?? {};
      yield [`parameter ${name} is missing`, { ...valid, query: others }];
    }
  }
  for (const { name, schema } of parametersOf(operation, "path")) {
    const { pattern, maxLength } = api.resolved(schema);
    const value = typeof pattern === "string" ? "-" : "x".repeat(Number(maxLength ?? 0) + 1);
    yield [`an unknown id of a ${name}`, { ...valid, params: { ...things, [name]: value } }];
  }
  const body = operation.requestBody?.content["application/json"]?.schema;
  if (!body) return;
  for (const text of ["{", "[]", "null", '"text"', '{"a":"\\u0000"}', "[".repeat(500)]) {
    yield [`the body ${text.slice(0, 9)}`, { ...valid, body: text }];
  }
  const { properties = {}, required = [] } = api.resolved(body) as {
    properties?: Record<string, Record<string, unknown>>;
    required?: string[];
  };
  const members = valid.body as Record<string, unknown>;
  yield ["member surprise", { ...valid, body: { ...members, surprise: 1 } }];
  for (const [name, schema] of Object.entries(properties)) {
    for (const value of wrongValues(api.resolved(schema))) {
      yield [
        `member ${name} is ${JSON.stringify(value).slice(0, 40)}`,
        { ...valid, body: { ...members, [name]: value } },
      ];
    }
  }
  for (const name of required) {
    const { [name]: _, ...others } = members;
    yield [`member ${name} is missing`, { ...valid, body: others }];
  }
}

function wrongTexts(schema: Record<string, unknown>): string[] {
  if (schema.type === "integer") {
    const beyond = schema.maximum === undefined ? [] : [String(Number(schema.maximum) + 1)];
    return ["", "x", "-1", "1.5", "1e3", " 1", ...beyond];
  }
  if (schema.type === "boolean") return ["", "yes", "1"];
  if (Array.isArray(schema.enum)) return ["", "surprise"];
  // A longer address is refused by Node's server.
  if (typeof schema.maxLength === "number" && schema.maxLength <= longestText) {
    return [...(schema.minLength === 1 ? [""] : []), "x".repeat(schema.maxLength + 1), "a\0b"];
  }
  return [];
}

function wrongValues(schema: Record<string, unknown>): unknown[] {
  const others: unknown[] = [null, { surprise: { deep: [] } }, [[]], true, 1.5, "\ud800"];
  const { type } = schema;
  if (type === "boolean") return [null, 1, "true", {}];
  if (type === "integer" || type === "number") {
    return [null, "1", {}, Number(schema.minimum ?? 0) - 1, ...(schema.maximum ? [Number(schema.maximum) + 1] : [])];
  }
  if (type === "string") return [null, 1, {}, ...(schema.maxLength ? ["x".repeat(Number(schema.maxLength) + 1)] : [])];
  if (type === "array") return [null, {}, "x", [{}]];
  if (type === "object") return [null, [], 1, "x"];
  return others.slice(0, 1);
}

/** operations whose path may name something new, so that a bad name breaks a rule and is not merely unknown */
const namingNew = ["putDrive"];

/** sends an invalid request, which must be refused with a sentence about the field */
export async function expectRefusal(
  api: DocumentClient,
  { operationId }: Documented,
  why: string,
  sent: Sent,
): Promise<void> {
  const { status, json, text } = await api.send(operationId, sent);
  const title = `${operationId}, ${why}: ${status} ${text.slice(0, 300)}`;
  const isUnknown = why.startsWith("an unknown id") && !namingNew.includes(operationId);
  const wanted = isUnknown ? 404 : why.endsWith(" key") ? 401 : 400;
  expect(status, title).toBe(wanted);
  expect(json.error.message, title).toMatch(/\w/);
  const field = /^(?:parameter|member) (\w+)/.exec(why)?.[1];
  if (field && !why.includes("\0")) expect(`${json.error.field} ${json.error.message}`, title).toContain(field);
}
