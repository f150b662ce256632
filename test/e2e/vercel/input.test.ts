/**
 * Bad input: every member of every body and query, tried with wrong types, bounds, sizes and encodings. Each is refused
 * with a 4xx and a sentence, nothing changes, and no answer is a 5xx.
 */

import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { pack } from "tar-stream";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type RawAnswer, type RawOptions, raw } from "../clients.ts";
import { type Endpoint, endpoints, everythingOf, examples, routesOfTheDaemon, wire } from "./endpoints.ts";

const daemon = daemonOfFile();
/** values for the names in the paths */
const things: Record<string, string> = { name: "victim", drive: "victim", team: "team_default", project: "default" };

beforeAll(async () => {
  const made = await raw(daemon(), "POST", "/v3/sandboxes", {
    body: { name: "victim", ports: [3000], tags: { a: "b" } },
  });
  things.sessionId = made.json.session.id;
  await raw(daemon(), "POST", "/v2/sandboxes/drives/victim", { body: {} });
  const session = `/v2/sandboxes/sessions/${things.sessionId}`;
  const command = await raw(daemon(), "POST", `${session}/cmd`, { body: { command: "sleep", args: ["600"] } });
  things.commandId = command.json.command.id;
  const other = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "other" } });
  const taken = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${other.json.session.id}/snapshot`);
  things.snapshotId = taken.json.snapshot.id;
});

describe("the table of endpoints", () => {
  test("is complete", () => {
    const known = endpoints.map(({ method, path }) => `${method} ${path}`);
    expect(known.toSorted()).toEqual(routesOfTheDaemon().toSorted());
  });

  test("has examples that are valid and name every member", () => {
    for (const [name, schema] of Object.entries(wire)) {
      const all = examples[name as keyof typeof wire];
      for (const example of all) expect(schema.safeParse(example).error, name).toBeUndefined();
      const shown = new Set(all.flatMap((example) => Object.keys(example)));
      expect(
        membersOf(schema).filter((member) => !shown.has(member)),
        name,
      ).toEqual([]);
    }
  });
});

/** those that read anything at all */
const reading = endpoints.filter(({ path, query, body }) => query || body || path.includes(":"));

describe.each(reading.map((endpoint) => ({ ...endpoint, title: `${endpoint.method} ${endpoint.path}` })))(
  "$title",
  (endpoint) => {
    const schemas = [endpoint.query, endpoint.body].filter((schema) => schema !== undefined);

    test.each(schemas)("refuses everything that does not match its %s", async (schema) => {
      const before = await everything();
      const wrong = examples[schema]
        .flatMap((example) => mutations(example))
        .filter((value) => isRefusedBy(schema, value));
      expect(wrong.length).toBeGreaterThan(0);
      for (const value of wrong) expectRefusal(await ask(endpoint, schema, value), value);
      expect(await everything()).toEqual(before);
    });

    if (endpoint.body) {
      test("refuses a body that is no JSON object in UTF-8, or too long", async () => {
        const before = await everything();
        const bodies = [
          ...["{", "nul", "'a'", "[]", "null", "1", '"text"', '{"a":}', "\ufeff{}x", "[".repeat(100_000)],
          Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
        ];
        for (const body of bodies) expectRefusal(await send(endpoint, { body }), body.slice(0, 50));
        expect(await statusOfLong(endpoint)).toBe(400);
        expect(await everything()).toEqual(before);
      });
    }

    if (endpoint.path.includes(":")) {
      test("finds nothing under an impossible name", async () => {
        const before = await everything();
        const names = [
          "x".repeat(5000),
          "%00",
          "a%00b",
          "%2e%2e",
          "..%2f..%2fetc",
          "a%20b",
          "%f0%9f%92%a5",
          "%ff",
          "'%20or%201=1",
          "$",
          "*",
        ];
        const last = endpoint.path.match(/:\w+/g)?.at(-1) ?? "";
        for (const name of names) {
          const answer = await send(endpoint, endpoint.body ? { body: examples[endpoint.body][0] } : {}, {
            [last.slice(1)]: name,
          });
          expect([400, 404], `${name}: ${answer.text}`).toContain(answer.status);
        }
        // A drive or project cannot be created under these names.
        expect(await everything()).toEqual(before);
      });
    }
  },
);

describe("odd values that are valid", () => {
  const session = () => `/v2/sandboxes/sessions/${things.sessionId}`;
  const odd = [
    "\u0001",
    "\ud800",
    "a\nb",
    "-",
    "--",
    "~",
    ".",
    "..",
    "//",
    "\\",
    "%s%n",
    "💥",
    "x".repeat(4000),
    "x/".repeat(2000),
  ];

  test.each(["readBody", "mkdirBody"] as const)("are answered, as a path in %s", async (schema) => {
    const path = `${session()}/fs/${schema === "readBody" ? "read" : "mkdir"}`;
    for (const value of odd.filter((path) => !isRefusedBy(schema, { path }))) {
      for (const body of [{ path: value }, { path: "a", cwd: value }]) {
        const answer = await raw(daemon(), "POST", path, { body });
        expect(answer.status, `${JSON.stringify(body).slice(0, 100)}: ${answer.text.slice(0, 200)}`).toBeLessThan(500);
      }
    }
  });

  test("are answered, in every part of a command", async () => {
    for (const value of odd) {
      const bodies = [
        { command: value },
        { command: "true", args: [value] },
        { command: "true", cwd: value },
        { command: "true", env: { [value]: "1" } },
        { command: "true", env: { A: value } },
      ];
      for (const body of bodies.filter((body) => !isRefusedBy("runBody", body))) {
        const answer = await raw(daemon(), "POST", `${session()}/cmd`, { body });
        expect(answer.status, `${JSON.stringify(body).slice(0, 100)}: ${answer.text.slice(0, 200)}`).toBeLessThan(500);
      }
    }
  });

  test("too many arguments for the kernel are refused", async () => {
    const long = await raw(daemon(), "POST", `${session()}/cmd`, {
      body: { command: "true", args: ["x".repeat(200_000)] },
    });
    expectRefusal(long, "one argument of 200,000 characters");
    const many = Array.from({ length: 60_000 }, () => "x".repeat(40));
    expectRefusal(
      await raw(daemon(), "POST", `${session()}/cmd`, { body: { command: "true", args: many } }),
      "60,000 arguments",
    );
  });
});

describe("malformed and hostile archives", () => {
  const write = (body: Uint8Array, headers: Record<string, string> = { "x-cwd": "/" }) =>
    raw(daemon(), "POST", `/v2/sandboxes/sessions/${things.sessionId}/fs/write`, {
      body,
      headers: { "content-type": "application/gzip", ...headers },
    });

  test("are refused with a sentence", async () => {
    const whole = gzipSync(await tarOf({ name: "tmp/a", size: 5 }, "hello"));
    const bodies = [
      Buffer.from("no archive at all"),
      gzipSync(Buffer.from("no tar inside")),
      whole.subarray(0, 40),
      gzipSync((await tarOf({ name: "tmp/a", size: 5 }, "hello")).subarray(0, 700)),
      gzipSync(await tarOf({ name: "../../etc/evil", size: 1 }, "x")),
      gzipSync(await tarOf({ name: "tmp/device", type: "block-device", devmajor: 8, devminor: 0 })),
      gzipSync(await tarOf({ name: "tmp/device", type: "character-device", devmajor: 1, devminor: 1 })),
    ];
    for (const body of bodies) expectRefusal(await write(body), body.toString("latin1", 0, 20));
    for (const cwd of ["", "x".repeat(5000)]) expectRefusal(await write(whole, { "x-cwd": cwd }), cwd.slice(0, 10));
  });
});

test("the daemon has logged no error", () => {
  expect(daemon().complaints()).toBe("");
});

/** values for a body or a query, each with a member that is wrong, missing or unknown */
function mutations(example: object): unknown[] {
  const places = placesIn(example);
  return [
    ...places.flatMap((place) => wrongValues.map((value) => changed(example, place, value))),
    ...places.map((place) => changed(example, place, undefined)),
    { ...example, unknown: 1 },
    { ...example, constructor: "x", toString: 1 },
  ];
}

const wrongValues: unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e21, 2 ** 53, -(2 ** 31)],
  ...[
    "",
    " ",
    "x",
    "0",
    "-1",
    "1e3",
    "true",
    "\0",
    "a\0b",
    "\ud800",
    "ünï",
    "a b",
    "../..",
    "a=b",
    "\r\nx: y",
    "x".repeat(20_000),
  ],
  ...[
    [],
    [[]],
    [null],
    [1, "a"],
    Array.from({ length: 100 }, () => 3000),
    Array.from({ length: 2000 }, (_, n) => `h${n}.test`),
  ],
  ...[{}, { a: 1 }, { "": "" }, Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`k${n}`, "v"]))],
];

type Place = (string | number)[];

/** the paths of members, at every depth */
function placesIn(value: unknown, at: Place = []): Place[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const place = [...at, Array.isArray(value) ? Number(key) : key];
    return [place, ...placesIn(member, place)];
  });
}

function changed(example: object, [key = "", ...rest]: Place, value: unknown): unknown {
  const members = example as Record<string | number, unknown>;
  const next = rest.length === 0 ? value : changed(members[key] as object, rest, value);
  return Array.isArray(example)
    ? example.map((each, index) => (index === key ? next : each))
    : { ...example, [key]: next };
}

function isRefusedBy(schema: keyof typeof wire, value: unknown): boolean {
  // As it will arrive: JSON drops some values.
  const arriving = schema.endsWith("Query") ? queryOf(value) : JSON.parse(JSON.stringify(value));
  return !wire[schema].safeParse(arriving).success;
}

/** a query as the daemon sees it: only text, or several of it */
function queryOf(value: unknown): Record<string, unknown> {
  const all = [...new URLSearchParams(searchOf(value))];
  const names = new Set(all.map(([name]) => name));
  return Object.fromEntries(
    [...names].map((name) => {
      const values = all.filter(([other]) => other === name).map(([, text]) => text);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

function searchOf(value: unknown): string {
  const search = new URLSearchParams();
  for (const [name, member] of Object.entries(value as object)) {
    if (member === undefined) continue;
    for (const each of Array.isArray(member) ? member.slice(0, 20) : [member]) {
      const text = typeof each === "string" ? each.toWellFormed() : JSON.stringify(each);
      // Node refuses longer ones before a dialect can answer.
      search.append(name, text.slice(0, 5000));
    }
  }
  return search.toString();
}

function ask(endpoint: Endpoint, schema: keyof typeof wire, value: unknown): Promise<RawAnswer> {
  if (schema === endpoint.body) return send(endpoint, { body: JSON.stringify(value) });
  return send(endpoint, endpoint.body ? { body: {} } : {}, {}, searchOf(value));
}

function send(
  { method, path }: Endpoint,
  options: RawOptions,
  names: Record<string, string> = {},
  search = "",
): Promise<RawAnswer> {
  return raw(daemon(), method, `${pathOf(path, names)}?${search}`, {
    ...options,
    headers: { "content-type": "application/json" },
  });
}

function pathOf(path: string, names: Record<string, string> = {}): string {
  return path.replace(/:(\w+)/g, (_, name: string) => names[name] ?? things[name] ?? "");
}

/** the answer to a body that is too long; on a connection of its own, because unread bytes end it */
async function statusOfLong({ method, path }: Endpoint): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${daemon().key}`, "content-type": "application/json" };
  const sent = request(new URL(pathOf(path), daemon().url), { method, headers, agent: false });
  sent.end(`{"${"x".repeat(5_000_000)}":1}`);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  sent.on("error", () => undefined).destroy();
  return answer.statusCode;
}

function expectRefusal(answer: RawAnswer, value: unknown): void {
  const shown = `${JSON.stringify(value)?.slice(0, 300)}: ${answer.status} ${answer.text.slice(0, 300)}`;
  expect(answer.status, shown).toBeGreaterThanOrEqual(400);
  expect(answer.status, shown).toBeLessThan(500);
  expect(answer.json?.error?.code, shown).toMatch(/^[a-z_]+$/);
  expect(answer.json?.error?.message, shown).toMatch(/\w+ \w+/);
}

/** everything there is, with its state */
function everything(): Promise<unknown> {
  return everythingOf(daemon(), things.sessionId);
}

function membersOf(schema: z.ZodType): string[] {
  const members = (description: z.core.JSONSchema.BaseSchema): string[] => [
    ...Object.keys(description.properties ?? {}),
    ...(description.anyOf ?? []).flatMap((each) => members(each as z.core.JSONSchema.BaseSchema)),
  ];
  return members(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }));
}

async function tarOf(header: Parameters<ReturnType<typeof pack>["entry"]>[0], content = ""): Promise<Buffer> {
  const archive = pack();
  archive.entry(header, content);
  archive.finalize();
  return buffer(archive);
}
