/** Bad input over MCP: every argument of every tool with wrong values. Each gives a sentence, and nothing changes. */

import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type Answer, call, connect, refusal, veryfrontPath } from "./mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

const sandbox = "untouched";
let client: Client;
/** of Veryfront's tools */
let vendor: Client;
/** good values of a tool's required arguments */
let good: Record<string, unknown>;

beforeAll(async () => {
  client = await connect(daemon(), "2026-07-28", undo);
  vendor = await connect(daemon(), "2026-07-28", undo, veryfrontPath);
  const { session_id } = await call(client, "create_sandbox", { name: sandbox });
  const run = await call(client, "run_command", { sandbox, command: "cat", stdin: true, background: true });
  good = {
    ...{ sandbox, id: session_id, command_id: run.command_id, command: "touch changed", path: "changed", content: "x" },
    ...{ data: "x", glob: "*", port: 4000, network_policy: { mode: "deny-all" }, seconds: 1 },
  };
});

interface Schema {
  type?: string;
  enum?: string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
}

/** values that the schema of an argument does not take */
function wrong(schema: Schema, name: string): unknown[] {
  switch (schema.type) {
    case "string":
      return [7, null, [], {}, ...wrongTexts(schema, name)];
    case "integer":
    case "number":
      return [
        "1",
        null,
        [1],
        (schema.minimum ?? 0) - 1,
        ...(schema.type === "integer" ? [1.5, 2 ** 53] : []),
        ...(schema.maximum === undefined ? [] : [schema.maximum + 1]),
      ];
    case "boolean":
      return ["true", 1, null];
    case "array":
      return [7, null, {}, "x", ...wrong(schema.items ?? {}, name).map((item) => [item]), ...tooMany(schema)];
    case "object":
      return [7, null, [], "x", ...wrongMembers(schema, name)];
    default:
      throw new Error(`There is no wrong value for ${name} ${JSON.stringify(schema)}`);
  }
}

/** length of the longest text that an argument takes, in characters; the schema omits it to stay short */
const longest: Record<string, number> = {
  ...{ sandbox: 128, name: 128, image: 255, runtime: 64, snapshot_id: 128, git_url: 4096, git_ref: 255 },
  ...{ command: 128 << 10, args: 128 << 10, cwd: 4096, path: 4096, command_id: 64, text: 4096, glob: 256 },
  ...{ env: 128 << 10, tags: 256, cursor: 4096, id: 64, allowed_domains: 253, allowed_cidrs: 64, denied_cidrs: 64 },
  ...{ content: Number.POSITIVE_INFINITY, data: 1 << 20 },
};
/** arguments that may be the empty text; their schemas do not say so either */
const mayBeEmpty = ["data", "content", "args", "env", "tags"];

function wrongTexts({ enum: words, format }: Schema, name: string): string[] {
  if (words) return ["none of them", ""];
  if (format) return ["not of the format", ""];
  const bound = longest[name];
  if (bound === undefined) throw new Error(`How long may ${name} be?`);
  // Files and input may contain any byte, but not half a surrogate pair.
  const bytes = ["content", "data"].includes(name);
  return [
    "half a character \ud800",
    ...(bytes ? [] : ["a NUL \0"]),
    ...(mayBeEmpty.includes(name) ? [] : [""]),
    ...(bound < 1 << 20 ? ["x".repeat(bound + 1)] : []),
  ];
}

function wrongMembers({ properties, additionalProperties, required }: Schema, name: string): object[] {
  const members = Object.entries(properties ?? {}).flatMap(([key, member]) =>
    wrong(member, key).map((value) => ({ ...valid(required), [key]: value })),
  );
  if (typeof additionalProperties !== "object") return [...members, { ...valid(required), unknown: 1 }];
  return [...members, { "": "empty name" }, ...wrong(additionalProperties, name).map((value) => ({ a: value }))];
}

function valid(required: string[] = []): object {
  return required.includes("mode") ? { mode: "custom" } : {};
}

function tooMany({ maxItems }: Schema): unknown[][] {
  return maxItems === undefined ? [] : [Array.from({ length: maxItems + 1 }, (_, index) => 2000 + index)];
}

describe("every argument of every tool", () => {
  test("is refused when it is wrong, missing or unknown, and nothing changes", async () => {
    const before = await everything();
    let tried = 0;
    for (const { name, inputSchema, agent } of await allTools()) {
      const { properties = {}, required = [] } = inputSchema as Schema;
      const args = Object.fromEntries(required.map((key) => [key, good[key]]));
      const attempts: [string, object][] = [
        ["an unknown argument", { ...args, unknown: 1 }],
        ...required.map((key): [string, object] => [
          `no ${key}`,
          Object.fromEntries(Object.entries(args).filter(([other]) => other !== key)),
        ]),
        ...Object.entries(properties).flatMap(([key, schema]) =>
          wrong(schema, key).map((value): [string, object] => [
            `${key} = ${JSON.stringify(value).slice(0, 60)}`,
            { ...args, [key]: value },
          ]),
        ),
      ];
      tried += attempts.length;
      await Promise.all(attempts.map(([what, attempt]) => expectRefused(agent, name, what, attempt)));
    }
    expect(tried).toBeGreaterThan(600);
    expect(await everything()).toEqual(before);
    expect(daemon().complaints()).toBe("");
  });

  test.each([
    [
      "create_sandbox",
      { snapshot_id: "snap_x", image: "a" },
      /`snapshot_id` should NOT be given together with `image`/,
    ],
    ["create_sandbox", { snapshot_id: "snap_x", git_url: "https://a.b/c" }, /NOT be given together with `git_url`/],
    ["create_sandbox", { git_ref: "main" }, /`git_ref` should NOT be given without `git_url`/],
    ["create_sandbox", { git_url: "file:///etc" }, /`git_url` should match pattern/],
    ["create_sandbox", { git_url: "https://a.b/c", git_ref: "--upload-pack=sh" }, /`git_ref` should match pattern/],
    ["create_sandbox", { git_url: "http://127.0.0.1:9/none.git" }, /^Cannot clone "http:\/\/127.0.0.1:9\/none.git"/],
    ["create_sandbox", { runtime: "node24", image: "a" }, /exclude each other/],
    ["create_sandbox", { runtime: "cobol" }, /should be one of/],
    ["create_sandbox", { image: "nowhere/none" }, /is not here/],
    ["create_sandbox", { snapshot_id: "snap_none" }, /'snap_none' not found/],
    ["create_sandbox", { name: sandbox }, /already exists/],
    ["create_sandbox", { name: "sessions" }, /`name` should NOT be one of/],
    ["create_sandbox", { name: "a b" }, /should match pattern/],
    [
      "create_sandbox",
      { network_policy: { mode: "deny-all", allowed_domains: ["a.b"] } },
      /only the mode `custom` has/,
    ],
    ["create_sandbox", { network_policy: { mode: "custom", allowed_cidrs: ["10.0.0.0/99"] } }, /CIDR/],
    ["create_sandbox_session", { ttl_mode: "duration" }, /`ttl_hours` should be given/],
    ["create_sandbox_session", { ttl_hours: 3 }, /`ttl_hours` should be given/],
    ["create_sandbox_session", { project_id: crypto.randomUUID() }, /Project not found/],
    ["list_sandboxes", { cursor: "made up" }, /cursor/i],
    ["list_sandbox_sessions", { cursor: `sbx_${"0".repeat(28)}` }, /cursor/],
    ["write_file", { sandbox, path: "changed", content: "%%%%", encoding: "base64" }, /`content` is not base64/],
    ["write_file", { sandbox, path: "/", content: "x" }, /\//],
    ["read_file", { sandbox, path: "/" }, /it is a directory/],
    ["list_files", { sandbox, path: "/etc/passwd" }, /passwd/],
    ["search_files", { sandbox }, /one of `text` and `glob`/],
    ["search_files", { sandbox, glob: "*", path: "/none" }, /\/none/],
    ["run_command", { sandbox, command: "true", cwd: "/none" }, /the working directory does not exist/],
    ["fork_sandbox", { sandbox: "nobody" }, /'nobody' not found/],
    ["resume_sandbox", { sandbox: "nobody" }, /'nobody' not found/],
    ["expose_port", { sandbox: "nobody", port: 3000 }, /'nobody' not found/],
    ["get_sandbox_session", { id: "sbx_none" }, /"sbx_none" not found/],
  ])("%s says what is wrong with %j", async (name, args, sentence) => {
    const before = await everything();
    const agent = (await allTools()).find((tool) => tool.name === name)?.agent ?? client;
    expect(await refusal(agent, name, args)).toMatch(sentence);
    expect(await everything()).toEqual(before);
  });

  test("too many ports are refused", async () => {
    const { sandbox: full } = await call(client, "create_sandbox", {
      ports: Array.from({ length: 15 }, (_, index) => 2000 + index),
    });
    expect(await refusal(client, "expose_port", { sandbox: full, port: 3000 })).toMatch(/has 15 ports already/);
    expect((await call(client, "expose_port", { sandbox: full, port: 2000 })).port).toBe(2000);
    await call(client, "delete_sandbox", { sandbox: full });
  });

  test("an unknown tool is the protocol's own error", async () => {
    await expect(call(client, "no_such_tool")).rejects.toThrow(/no_such_tool/);
    await expect(call(client, "constructor")).rejects.toThrow();
  });
});

async function allTools() {
  const lists = [client, vendor].map(async (agent) =>
    (await agent.listTools()).tools.map((tool) => ({ ...tool, agent })),
  );
  return (await Promise.all(lists)).flat();
}

async function expectRefused(agent: Client, name: string, what: string, attempt: object): Promise<void> {
  const sentence = await refusal(agent, name, attempt).catch((error) => expect.fail(`${name} with ${what}: ${error}`));
  expect(sentence, `${name} with ${what}`).toMatch(/^Input validation error: Invalid arguments for tool \w+: .{4}/s);
  expect(sentence.length).toBeLessThan(1000);
}

async function everything(): Promise<Answer> {
  const { command_id } = good;
  return Promise.all([
    call(client, "get_sandbox", { sandbox }),
    call(client, "list_sandboxes"),
    call(client, "list_files", { sandbox }),
    call(vendor, "list_sandbox_background_commands", { id: good.id }),
    call(client, "read_command_output", { sandbox, command_id }),
  ]);
}
