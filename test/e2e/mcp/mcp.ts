/** Clients of MCP for tests: the protocol's own package in both of its eras, and what a tool answers. */

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { hashKey } from "../../../src/daemon/secrets.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { root, type Undo } from "../../harness/harness.ts";

export const eras = ["2025-11-25", "2026-07-28"] as const;
export type Era = (typeof eras)[number];

/** `path` names a family of tools, and a project if it is not the default one; `headers` set up the connection */
export async function connect(
  daemon: Pick<TestDaemon, "url" | "key">,
  era: Era,
  undo: Undo,
  path = "/mcp",
  headers: Record<string, string> = {},
): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, negotiation(era));
  const transport = new StreamableHTTPClientTransport(new URL(path, daemon.url), {
    requestInit: { headers: { authorization: `Bearer ${daemon.key}`, ...headers } },
  });
  await client.connect(transport);
  undo.defer(() => client.close());
  return client;
}

export function negotiation(era: Era) {
  return { versionNegotiation: { mode: era === "2025-11-25" ? ("legacy" as const) : { pin: era } } };
}

/** the path of Veryfront's tools */
export const veryfrontPath = "/mcp/veryfront";

export interface Progress {
  progress: number;
  message?: string | undefined;
}

export interface Options {
  signal?: AbortSignal;
  onprogress?: (progress: Progress) => void;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they please
export type Answer = any;

/** the data of a successful answer, which its text repeats */
export async function call(client: Client, name: string, args: object = {}, options: Options = {}): Promise<Answer> {
  const { text, isError, data } = await answerOf(client, name, args, options);
  if (isError) throw new Error(`${name}: ${text}`);
  if (JSON.stringify(data) !== JSON.stringify(JSON.parse(text))) throw new Error(`${name} says two things: ${text}`);
  return data;
}

/** the sentence of an answer that is an error */
export async function refusal(client: Client, name: string, args: object = {}): Promise<string> {
  const { text, isError } = await answerOf(client, name, args);
  if (!isError) throw new Error(`${name} is not refused: ${text}`);
  return text;
}

async function answerOf(client: Client, name: string, args: object, options: Options = {}) {
  const { content, structuredContent, isError } = await client.callTool({ name, arguments: { ...args } }, options);
  const [first] = content;
  const text = first?.type === "text" ? first.text : "";
  return { text, data: structuredContent as Answer, isError: isError === true };
}

/** another team with a project and a key of its own */
export async function secondTeam({ dataDir }: TestDaemon): Promise<{ key: string; project: string }> {
  const [key, project] = [`sk_${randomBytes(20).toString("hex")}`, crypto.randomUUID()];
  const store = await openStore({ path: join(dataDir, "sandkeep.db") });
  const at = { createdAt: Date.now() };
  await store.insertTeam({ id: "team_second", slug: "second", ...at });
  await store.insertProject({ id: "prj_second", uuid: project, teamId: "team_second", name: "default", ...at });
  await store.insertKey({ id: "key_second", teamId: "team_second", name: "", hint: "", hash: hashKey(key), ...at });
  await store.close();
  return { key, project };
}

/** runs a program to its end, with nothing of this environment but PATH */
export async function runProgram(file: string, args: string[], env: Record<string, string>) {
  const child = spawn(file, args, {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { stdout, stderr, status };
}
