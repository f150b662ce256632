/** The OpenAPI document: it is complete in itself, and every operation has its place in it. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import type { OpenApi, OpenApiOperation } from "./openapi.ts";

async function documented(): Promise<OpenApi> {
  const { ask } = apiClient();
  const { status, json } = await ask("GET", "/sandkeep/v1/openapi.json", undefined, { token: null });
  expect(status).toBe(200);
  return json;
}

function operationsOf({ paths }: OpenApi): { path: string; method: string; operation: OpenApiOperation }[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}

test("every schema of the document is valid, and every reference leads to one", async () => {
  const document = await documented();
  const ajv = new Ajv2020({ strict: false, formats: { uri: true } });
  ajv.addSchema({ ...document, $id: "document" });
  for (const name of Object.keys(document.components.schemas)) {
    expect(() => ajv.compile({ $ref: `document#/components/schemas/${name}` }), name).not.toThrow();
  }
  const references = JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g);
  for (const [, name = ""] of references) expect(document.components.schemas, name).toHaveProperty(name);
  expect(JSON.stringify(document)).not.toMatch(/__schema|\$defs|inQuery/);
});

test("each operation has its own id, names the parameters of its path, and a GET has no body", async () => {
  const operations = operationsOf(await documented());
  expect(operations.length).toBeGreaterThan(90);
  const ids = operations.map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, method, operation } of operations) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const declared = operation.parameters.filter((each) => each.in === "path").map(({ name }) => name);
    expect(declared.sort(), path).toEqual(named.sort());
    if (method === "get") expect(operation.requestBody, path).toBeUndefined();
    expect(operation.summary, path).toMatch(/^[A-Z].*[^.]$/);
  }
});

test("every POST with a JSON body takes an Idempotency-Key, and says so", async () => {
  for (const { path, method, operation } of operationsOf(await documented())) {
    const takes = operation.parameters.some(({ name }) => name === "Idempotency-Key");
    const isBytes = Object.keys(operation.requestBody?.content ?? {}).some((type) => type !== "application/json");
    expect([path, takes]).toEqual([path, method === "post" && !isBytes]);
  }
});

test("what is done to a session can also be done to the current session of a sandbox", async () => {
  const { paths } = await documented();
  const output = "/commands/{command}/output";
  expect(paths[`/sandboxes/{sandbox}${output}`]?.get?.operationId).toBe("readOutputInSandbox");
  expect(paths[`/sessions/{session}${output}`]?.get?.operationId).toBe("readOutput");
});

test("parameters of a query are described by what they mean", async () => {
  const { paths } = await documented();
  const parameters = paths["/sandboxes"]?.get?.parameters ?? [];
  expect(parameters.find(({ name }) => name === "limit")?.schema).toEqual({
    type: "integer",
    minimum: 1,
    maximum: 1000,
  });
  const deletion = paths["/sandboxes/{sandbox}"]?.delete?.parameters ?? [];
  expect(deletion.find(({ name }) => name === "snapshots")?.schema).toEqual({ type: "boolean" });
});

test("the reference page escapes what it shows", async () => {
  const { ask } = apiClient();
  const { text, headers } = await ask("GET", "/sandkeep/v1/reference", undefined, { token: null });
  expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(text).toContain('id="startCommand"');
  expect(text).not.toMatch(/<script|javascript:/);
});
