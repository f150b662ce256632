/**
 * The API of language models, and a registry of npm packages, for programs inside sandboxes: run inside the network
 * namespace of test/internet/internet.ts, on its address for them. The model follows a script: it calls the shell
 * tool with the command that the prompt has after "run:", then says "done". The registry has the archives of the folder that
 * the first argument names. Prints "ready", then each request as a line of JSON; stays until its stdin ends.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createHttps } from "node:https";
import { text } from "node:stream/consumers";
import { openAuthority } from "../../src/egress/intercept/authority.ts";
import { modelAddress } from "./internet-names.ts";
import { internetSpec } from "./internet-tls.ts";
import { messageEvents, responseEvents, type Turn } from "./model-events.ts";
import { NpmArchives } from "./npm-archives.ts";

const authority = openAuthority(internetSpec);
const [folder] = process.argv.slice(2);
const archives = folder === undefined ? undefined : await NpmArchives.open(folder);

const server = createHttps({ SNICallback: (name, done) => done(null, authority.leafFor(name)) }, answer);
server.on("tlsClientError", () => undefined);
server.listen({ port: 443, host: modelAddress, reusePort: true }, () => console.log("ready"));
process.stdin.on("end", () => process.exit(0)).resume();

/** What a test sees of a request. */
export interface ModelRequest {
  host: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
}

let turns = 0;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "", headers } = request;
  const host = headers.host ?? "";
  const [path = ""] = (request.url ?? "").split("?");
  const body = await text(request);
  console.log(JSON.stringify({ host, method, path, headers, body } satisfies Record<keyof ModelRequest, unknown>));
  if (host === "registry.npmjs.org" && archives?.answer(path, response)) return;
  if (headers.upgrade !== undefined) {
    // Codex tries WebSockets first, and then goes on without them at once.
    response.writeHead(426).end();
    return;
  }
  const events = { "/v1/messages": messageEvents, "/v1/responses": responseEvents }[path];
  if (method !== "POST" || !events) {
    response.writeHead(404, { "content-type": "application/json" }).end('{"error":{"message":"not found"}}');
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of events(nextTurn(JSON.parse(body)), ++turns)) {
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
}

interface Tool {
  name?: string;
  tools?: Tool[];
}

interface Conversation {
  tools?: Tool[];
  messages?: unknown[];
  input?: { type: string; tools?: Tool[] }[];
}

/** how to call the shell tools of different programs */
const shells: Record<string, (command: string) => object | string> = {
  Bash: (command) => ({ command, description: "as the prompt says" }),
  bash: (command) => ({ command, description: "as the prompt says" }),
  shell_command: (command) => ({ command }),
  exec_command: (cmd) => ({ cmd }),
  exec: (cmd) => `text(await tools.exec_command(${JSON.stringify({ cmd })}))`,
};

function nextTurn({ tools = [], messages, input = [] }: Conversation): Turn {
  const said = JSON.stringify(messages ?? input);
  const command = /run: ([^"\\]+)/.exec(said)?.[1];
  const offered = namesOf([...tools, ...input.flatMap((item) => item.tools ?? [])]);
  const tool = offered.find((name) => name in shells);
  const isAnswered = /"(tool_result|function_call_output|custom_tool_call_output)"/.test(said);
  if (command === undefined || tool === undefined || isAnswered) return { say: "done" };
  return { tool, input: shells[tool]?.(command) ?? {} };
}

/** the names of tools, and of those in their groups */
function namesOf(tools: Tool[]): string[] {
  return tools.flatMap(({ name = "", tools: group = [] }) => [name, ...namesOf(group)]);
}
