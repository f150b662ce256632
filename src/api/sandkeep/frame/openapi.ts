/** The OpenAPI 3.1 document of the declared operations. Its schemas are those that check the requests. */

import { z } from "zod";
import { errorBody } from "../errors.ts";
import {
  type AnyOperation,
  isRepeatable,
  type OperationPath,
  pathsOf,
  type Subject,
  scopeQueries,
} from "./operation.ts";

export interface OpenApi {
  openapi: "3.1.0";
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  security: Record<string, string[]>[];
  tags: { name: string }[];
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: Record<string, JsonSchema>; securitySchemes: object };
}

export interface OpenApiOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters: OpenApiParameter[];
  requestBody?: { required: boolean; content: Record<string, { schema: JsonSchema }> };
  responses: Record<string, { description: string; content?: Record<string, { schema?: JsonSchema }> }>;
}

export interface OpenApiParameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: JsonSchema;
}

export type JsonSchema = Record<string, unknown>;

const description = `Everything that the daemon can do. Send an API key as \`Authorization: Bearer …\`.

Times are milliseconds since 1970, durations milliseconds, sizes bytes, and \`memory\` is in MiB. A member without a value is \
null. Lists come in pages: send \`next\` of one page as \`cursor\` of the next. A POST may carry an \`Idempotency-Key\`: a repeat \
with it gets the first answer again, and does nothing twice. A thing of another team does not exist (404).`;

/** `version` is the daemon's */
export function openApi(operations: readonly AnyOperation[], version: string): OpenApi {
  const components: Components = new Map();
  const paths: OpenApi["paths"] = {};
  for (const operation of operations) {
    for (const at of pathsOf(operation)) {
      const described = describe(operation, at, components);
      paths[at.path] = { ...paths[at.path], [operation.method.toLowerCase()]: described };
    }
  }
  return {
    openapi: "3.1.0",
    info: { title: "Sandkeep", version, description },
    servers: [{ url: "/sandkeep/v1" }],
    security: [{ key: [] }],
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries([...components].sort(([one], [other]) => (one < other ? -1 : 1))),
      securitySchemes: { key: { type: "http", scheme: "bearer", description: "An API key of a team" } },
    },
  };
}

/** schemas with a name of their own, by that name */
type Components = Map<string, JsonSchema>;

function describe(operation: AnyOperation, at: OperationPath, components: Components): OpenApiOperation {
  const { tag, summary, answer } = operation;
  const error = { description: "The request failed", content: jsonContent(errorBody, "output", components) };
  const body = requestBody(operation, components);
  return {
    operationId: at.id,
    tags: [tag],
    summary,
    ...(operation.description !== undefined && { description: operation.description }),
    parameters: [
      ...parameters("path", at.params, components),
      ...parameters("query", { ...scopeQueries[operation.about as Subject], ...operation.query }, components),
      ...(isRepeatable(operation) ? [idempotencyKey] : []),
    ],
    ...(body && { requestBody: body }),
    responses: {
      [answer.status]: {
        description: answer.description,
        ...(answer.status !== 204 && {
          content: {
            ...(answer.json && jsonContent(answer.json, "output", components)),
            ...otherContents(answer.others ?? {}, components),
          },
        }),
      },
      "4XX": error,
      "5XX": error,
    },
  };
}

const idempotencyKey: OpenApiParameter = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "A repeat with the same key and the same body gets the first answer again, within a day",
  schema: { type: "string", pattern: "^[\\x21-\\x7e]{1,255}$" },
};

function requestBody({ body, bytes }: AnyOperation, components: Components): OpenApiOperation["requestBody"] {
  if (bytes !== undefined) return { required: true, content: { [bytes]: { schema: {} } } };
  if (!body) return undefined;
  // An empty body is an empty object.
  return { required: !body.safeParse({}).success, content: jsonContent(body, "input", components) };
}

function parameters(where: "path" | "query", shape: z.core.$ZodLooseShape, components: Components): OpenApiParameter[] {
  return Object.entries(shape).map(([name, schema]) => {
    const { description: words, ...json } = jsonSchema(schema, "input", components);
    const required = where === "path" || !z.safeParse(schema, undefined).success;
    return { name, in: where, required, ...(typeof words === "string" && { description: words }), schema: json };
  });
}

function jsonContent(schema: z.ZodType, io: "input" | "output", components: Components) {
  return { "application/json": { schema: jsonSchema(schema, io, components) } };
}

function otherContents(others: Record<string, z.ZodType | undefined>, components: Components) {
  const contents = Object.entries(others).map(([type, schema]) => {
    return [type, schema ? { schema: jsonSchema(schema, "output", components) } : {}];
  });
  return Object.fromEntries(contents);
}

function jsonSchema(schema: z.core.$ZodType, io: "input" | "output", components: Components): JsonSchema {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ jsonSchema: json }) => simplify(json),
  });
  const { $schema: _, $defs = {}, ...own } = referring(made) as JsonSchema & { $defs?: Record<string, JsonSchema> };
  for (const [name, { id: __, ...definition }] of Object.entries($defs)) add(components, name, definition);
  return own;
}

/** describes values of a query by what they mean, and leaves out limits that every number of JSON has */
function simplify(json: JsonSchema): void {
  if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum;
  if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum;
  const { inQuery, description: words, default: usual } = json;
  if (typeof inQuery !== "object") return;
  for (const key of Object.keys(json)) delete json[key];
  Object.assign(
    json,
    inQuery,
    words !== undefined && { description: words },
    usual !== undefined && { default: usual },
  );
}

function referring(schema: object): unknown {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'));
}

/** a name stands for one schema, in requests and in answers */
function add(components: Components, name: string, schema: JsonSchema): void {
  const there = components.get(name);
  if (there && JSON.stringify(there) !== JSON.stringify(schema)) {
    throw new Error(`Two schemas of the API are called "${name}"`);
  }
  components.set(name, schema);
}
