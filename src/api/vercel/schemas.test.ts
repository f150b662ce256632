/**
 * Bad input, driven by the schemas: sends invalid values for every field of every endpoint, through HTTP. Each input
 * that its schema refuses is a 400 with a message and changes nothing in the core. No input is a 5xx.
 */

import { beforeEach, describe, expect, test } from "vitest";
import type { z } from "zod";
import { apiClient } from "../../../test/harness/api-client.ts";
import { commandId, sessionId, snapshotId } from "../../../test/harness/fake-core.ts";
import { requireText } from "../kit/http.ts";
import { defaultLimits } from "./limits.ts";
import { schemas } from "./schemas.ts";

const all = schemas(defaultLimits);
const day = 86_400_000;
const session = `/api/v2/sandboxes/sessions/${sessionId}`;

const policy = {
  allow: {
    "a.com": [
      {
        transform: [{ headers: { a: "b" } }],
        match: { path: { exact: "/" }, method: ["GET"], headers: [{ key: { exact: "x" } }] },
      },
      { forwardURL: "https://x.com" },
      { response: { statusCode: 200, headers: { a: "b" }, body: "x", contentType: "a/b" } },
    ],
  },
  subnets: { allow: ["10.0.0.0/8"], deny: ["10.0.0.0/8"] },
};
const settings = {
  persistent: true,
  resources: { vcpus: 2, memory: 4096 },
  timeout: 60_000,
  networkPolicy: policy,
  networkId: "net",
  ports: [3000],
  env: { A: "1" },
  tags: { a: "b" },
  snapshotExpiration: day,
  keepLastSnapshots: { count: 1, expiration: day, deleteEvicted: true },
  region: "sfo1",
  failoverRegions: ["iad1"],
  mounts: { "/data": { drive: "d", mode: "snapshot" } },
};
const source = { type: "git", url: "https://x.com/y.git", depth: 1, revision: "main", username: "u", password: "p" };

interface Endpoint {
  method: string;
  path: string;
  schema: z.ZodType;
  /** a body with every field */
  body: unknown;
}

const endpoints: Endpoint[] = [
  {
    method: "POST",
    path: "/api/v3/sandboxes",
    schema: all.createBody,
    body: { ...settings, projectId: "default", name: "x", source, image: "x" },
  },
  {
    method: "POST",
    path: "/api/v2/sandboxes",
    schema: all.createBody,
    body: { source: { type: "snapshot", snapshotId }, runtime: "node24" },
  },
  {
    method: "POST",
    path: "/api/v2/sandboxes",
    schema: all.createBody,
    body: { source: { type: "tarball", url: source.url } },
  },
  {
    method: "POST",
    path: "/api/v2/sandboxes/demo/fork",
    schema: all.forkBody,
    body: { ...settings, name: "x", image: "x" },
  },
  {
    method: "PATCH",
    path: "/api/v2/sandboxes/demo",
    schema: all.updateBody,
    body: { ...settings, currentSnapshotId: snapshotId, runtime: "node24" },
  },
  { method: "POST", path: `${session}/stop`, schema: all.emptyBody, body: {} },
  { method: "POST", path: `${session}/interactive`, schema: all.emptyBody, body: {} },
  { method: "POST", path: `${session}/extend-timeout`, schema: all.extendBody, body: { duration: 1000 } },
  { method: "POST", path: `${session}/network-policy`, schema: all.networkPolicyBody, body: policy },
  {
    method: "POST",
    path: `${session}/network-policy`,
    schema: all.networkPolicyBody,
    body: {
      mode: "custom",
      allowedDomains: ["a.com"],
      allowedCIDRs: ["10.0.0.0/8"],
      deniedCIDRs: ["10.0.0.0/8"],
      injectionRules: [{ domain: "a.com", headers: { a: "b" }, match: { path: { regex: "x" } } }],
      forwardRules: [{ domain: "a.com", forwardURL: "https://x.com" }],
    },
  },
  { method: "POST", path: `${session}/snapshot`, schema: all.snapshotBody, body: { expiration: day } },
  {
    method: "POST",
    path: `${session}/cmd`,
    schema: all.runBody,
    body: { command: "x", args: ["a"], cwd: "/", env: { A: "1" }, sudo: true, wait: true, logs: true, timeout: 1000 },
  },
  { method: "POST", path: `${session}/cmd/${commandId}/kill`, schema: all.killBody, body: { signal: 9 } },
  { method: "POST", path: `${session}/fs/read`, schema: all.readBody, body: { path: "a", cwd: "/" } },
  {
    method: "POST",
    path: `${session}/fs/mkdir`,
    schema: all.mkdirBody,
    body: { path: "a", cwd: "/", recursive: true },
  },
  {
    method: "POST",
    path: "/api/v2/sandboxes/drives/d",
    schema: all.driveBody,
    body: { projectId: "default", maxSizeBytes: 2 ** 30, region: "sfo1" },
  },
  { method: "POST", path: "/api/v11/projects", schema: all.projectBody, body: { name: "x" } },
];

const changing =
  /^(sandboxes\.(create|update|delete|fork|resume)|sessions\.(stop|extend|set|snapshot)|commands\.(run|kill)|files|drives\.getOrCreate|access\.createProject)/;

/** values that hardly any field accepts */
const junk: unknown[] = [
  null,
  true,
  0,
  -1,
  0.5,
  1e308,
  2 ** 53,
  "",
  " ",
  "\0",
  "\ud800",
  "../../../etc/passwd",
  "x".repeat(20_000),
  [],
  [null],
  [[]],
  Array(3000).fill("a.com"),
  {},
  { unexpected: {} },
  { "": "" },
  Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`k${i}`, "v"])),
];

/** the one message that the hosted service sends without its usual prefix */
const sentence = /^(Invalid request: .{5,700}|`[\w.]+` must be 0 \(no expiration\) or >= 86400000 ms \(1 day\)\.)$/s;

// One for all tests, as making an API takes as long as twenty requests; of a request it keeps only what is listed here.
const { ask, calls, logged } = apiClient();
const short = apiClient({}, { body: 100_000 });
beforeEach(() => {
  calls.length = 0;
  logged.length = 0;
});

describe.each(endpoints)("$method $path", ({ method, path, schema, body }) => {
  test("a complete body is accepted", async () => {
    expect((await ask(method, path, body)).status).toBeLessThan(300);
    expect(logged).toEqual([]);
  });

  test("junk in any field is refused with a message, and nothing changes", async () => {
    for (const mutant of mutants(body)) {
      calls.length = 0;
      const { status, json } = await ask(method, path, mutant.body);
      expect(logged, mutant.what).toEqual([]);
      if (isText(mutant.body) && schema.safeParse(onWire(mutant.body)).success) {
        expect(status, mutant.what).toBeLessThan(300);
        continue;
      }
      expect(status, mutant.what).toBe(400);
      expect(json.error.code).toBe("bad_request");
      expect(json.error.message, mutant.what).toMatch(sentence);
      expect(
        calls.filter((call) => changing.test(call.method)),
        mutant.what,
      ).toEqual([]);
    }
  });

  test("an unexpected object is refused everywhere", async () => {
    for (const at of paths(body)) {
      const { status } = await ask(method, path, replaced(body, at, { unexpected: { deep: [] } }));
      expect(status, at.join(".")).toBe(400);
      expect(calls.filter((call) => changing.test(call.method))).toEqual([]);
    }
  });

  test.each(["{", "[1", "nul", '"text', "\ufeff\ufeff{}", "{}{}", "[]", "null", "1", '"x"'])(
    "the body %j is refused",
    async (text) => {
      expect((await ask(method, path, text)).status).toBe(400);
      expect(calls.filter((call) => changing.test(call.method))).toEqual([]);
    },
  );

  test("a body that is too long or not UTF-8 is refused", async () => {
    short.calls.length = 0;
    for (const bytes of [Buffer.alloc(100_001, " "), Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])]) {
      expect((await short.send(method, path, { body: bytes })).status).toBe(400);
    }
    expect(short.calls.filter((call) => changing.test(call.method))).toEqual([]);
  });

  test("an unknown query parameter is refused, a private one is not", async () => {
    const reply = await ask(method, `${path}?surprise=1`, body);
    expect([reply.status, reply.json.error.message]).toEqual([
      400,
      "Invalid request: should NOT have additional property `surprise`.",
    ]);
    expect(calls.filter((call) => changing.test(call.method))).toEqual([]);
    expect((await ask(method, `${path}?__surprise=1`, body)).status).toBeLessThan(300);
  });
});

const lists = [
  ["/api/v2/sandboxes", all.sandboxesQuery, "project limit cursor sortOrder sortBy namePrefix status tags teamId slug"],
  ["/api/v2/sandboxes/sessions", all.historyQuery, "project limit cursor sortOrder name teamId slug"],
  ["/api/v2/sandboxes/snapshots", all.historyQuery, "project limit cursor sortOrder name teamId slug"],
  ["/api/v2/sandboxes/snapshots/tree", all.treeQuery, "project snapshotId limit sortOrder teamId slug"],
  ["/api/v2/sandboxes/drives", all.drivesQuery, "projectId limit cursor sortOrder sortBy namePrefix teamId slug"],
  ["/api/v2/sandboxes/demo", all.getQuery, "projectId resume teamId slug"],
  [`${session}/cmd/${commandId}`, all.commandQuery, "wait teamId slug"],
  [session, all.scopeQuery, "teamId slug"],
] as const;

test.each(lists)("GET %s refuses junk in its parameters", async (path, schema, names) => {
  for (const name of names.split(" ")) {
    for (const value of [
      "",
      "-1",
      "1e3",
      "0x10",
      "99999999999",
      "x".repeat(5000),
      "%00",
      "a&%s=b".replace("%s", name),
    ]) {
      const { status } = await ask("GET", `${path}?${name}=${value}`);
      const query = Object.fromEntries(new URLSearchParams(`${name}=${value}`));
      const twice = value.includes("&");
      if (twice || value === "%00" || !schema.safeParse(query).success)
        expect(status, `${name}=${value.slice(0, 20)}`).toBe(400);
      else expect(status, `${name}=${value.slice(0, 20)}`).toBeLessThan(500);
      expect(logged).toEqual([]);
    }
  }
});

interface Mutant {
  what: string;
  body: unknown;
}

/** the body with junk in each place, with each member missing, and with an extra member in each object */
function* mutants(body: unknown): Generator<Mutant> {
  for (const at of paths(body)) {
    const where = at.join(".");
    for (const value of junk) {
      yield { what: `${where} = ${JSON.stringify(value).slice(0, 60)}`, body: replaced(body, at, value) };
    }
    yield { what: `${where} missing`, body: replaced(body, at, undefined) };
    if (isObject(valueAt(body, at))) {
      yield { what: `${where} with one more`, body: replaced(body, [...at, "surprise"], 1) };
    }
  }
}

/** a value after a round trip through JSON */
function onWire(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function isText(value: unknown): boolean {
  try {
    requireText(value);
    return true;
  } catch {
    return false;
  }
}

type Path = (string | number)[];

function paths(value: unknown, prefix: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [];
  const keys: Path = Array.isArray(value) ? value.map((_, i) => i) : Object.keys(value);
  return keys.flatMap((key) => [[...prefix, key], ...paths(valueAt(value, [key]), [...prefix, key])]);
}

function valueAt(value: unknown, [first, ...rest]: Path): unknown {
  if (first === undefined) return value;
  return valueAt((value as Record<string | number, unknown>)[first], rest);
}

function replaced(value: unknown, [first, ...rest]: Path, by: unknown): unknown {
  if (first === undefined) return by;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  copy[first] = replaced(copy[first], rest, by);
  return copy;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
