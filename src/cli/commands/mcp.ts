/**
 * `sandkeep mcp`: the daemon's MCP tools over standard input and output, for clients that start a program. It passes on
 * the daemon's list of tools, its answers and its progress, and cancels calls there. `sandkeep mcp config` prints what
 * to paste into such a client.
 */

import { resolve } from "node:path";
import { ProtocolError, ProtocolErrorCode, Server, type Transport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { didYouMean } from "../../base/similar.ts";
import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { ask, type McpDaemon, McpRefusal } from "../client/mcp-daemon.ts";
import { patientTransport } from "../client/patient-transport.ts";
import { readArgs } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { clientConfig, clientNames, type Program } from "../print/mcp-clients.ts";

export const mcpUsage = `Usage: sandkeep mcp [options]
       sandkeep mcp config <client> [options]

Serves the daemon's MCP tools over standard input and output, for clients that start a program. With config, prints
what to paste into a client so that it starts this program with these options.

Clients: ${clientNames.join(", ")}

Options:
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set
  --project <id or name>   whose sandboxes (the default project)
  --policy-ceiling <policy>
                           let the model open this much network: allow-all, deny-all, or domains and ranges, such as
                           "registry.npmjs.org,*.github.com"; without it, it can only narrow what a sandbox may reach
  --tools <family>         sandkeep (the default), or the tools of a vendor by its names: veryfront

Example:
  claude mcp add sandkeep -- sandkeep mcp
`;

const options = {
  url: { type: "string" },
  "data-dir": { type: "string" },
  project: { type: "string" },
  "policy-ceiling": { type: "string" },
  tools: { type: "string" },
} as const;

export interface McpContext extends KeyPlaces {
  version: string;
  input: NodeJS.ReadableStream;
  output: NodeJS.WriteStream;
  /** how to start this program again from anywhere */
  program: Program;
  print(line: string): void;
  warn(line: string): void;
}

/** how long a busy daemon may take to answer at the start, in ms */
const patience = 10_000;

/**
 * Resolves once it serves; it ends with its input. If the daemon cannot be used, it answers every request with the
 * reason, which clients show, and then resolves with an exit code.
 */
export async function mcpCommand(args: string[], context: McpContext): Promise<number | undefined> {
  const { values, positionals } = await readArgs(args, mcpUsage, options);
  if (values.help) return void context.print(mcpUsage.trimEnd());
  const [command, ...rest] = positionals;
  if (command === "config") return void config(rest, values, context);
  if (command !== undefined) throw misuse(`Cannot serve "${positionals.join(" ")}"`, mcpUsage);
  const path = pathOf(values);
  // Made only when it is read from: it takes its input for answered when that ends and nothing was asked.
  const transport = () => patientTransport(context.input, context.output);
  let daemon: McpDaemon;
  try {
    const found = { url: daemonUrl(values, context), key: apiKey(values["data-dir"], context) };
    const headers = ceilingHeaders(values);
    daemon = { ...found, path, ...(headers && { headers }) };
    const client = new Client(found);
    await client.health(patience);
    await client.requireAccess({ project: values.project });
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    context.warn(error.message);
    await answerWith(error.message, transport());
    return 1;
  }
  serveStdio(() => relay(daemon, context.version), {
    transport: transport(),
    onerror: (error) => context.warn(wordsOf(error)),
  });
  return undefined;
}

/** The SDK's checks list every form that a message could have had. */
function wordsOf(error: Error): string {
  return "issues" in error ? "Left out a line of the input: it is not a message of JSON-RPC 2.0" : error.message;
}

/** answers every request with an error until the input ends */
async function answerWith(message: string, transport: Transport): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    transport.onclose = resolve;
  });
  transport.onmessage = (request) => {
    if (!("id" in request) || !("method" in request)) return;
    const error = { code: ProtocolErrorCode.InternalError, message };
    void transport.send({ jsonrpc: "2.0", id: request.id, error }).catch(() => undefined);
  };
  await transport.start();
  await closed;
}

type Values = Partial<Record<keyof typeof options, string | undefined>>;

function pathOf({ tools = "sandkeep", project }: Values): string {
  if (!Object.hasOwn(paths, tools)) {
    throw new CliError(`Cannot serve the tools "${tools}": there are ${Object.keys(paths).join(" and ")}`);
  }
  return `${paths[tools]}${project === undefined ? "" : `?${new URLSearchParams({ project })}`}`;
}

function ceilingHeaders({ "policy-ceiling": ceiling }: Values): Record<string, string> | undefined {
  return ceiling === undefined ? undefined : { "sandkeep-policy-ceiling": ceiling };
}

const paths: Record<string, string> = { sandkeep: "/mcp", veryfront: "/mcp/veryfront" };

/** prints what to paste on standard output, and where to paste it on standard error */
function config([client = "", ...rest]: string[], values: Values, context: McpContext): void {
  const known = clientNames.find((name) => name === client);
  if (!known || rest.length > 0) {
    throw misuse(noSuchClient([client, ...rest]), mcpUsage);
  }
  pathOf(values);
  const url = daemonUrl(values, context);
  // Without a key to read here, the program that the client starts has none either.
  apiKey(values["data-dir"], context);
  const { SANDKEEP_API_KEY: key, SANDKEEP_DATA_DIR, NODE_EXTRA_CA_CERTS: certificates } = context.environment;
  // A client starts programs with few variables, and in another directory. The key takes precedence over the directory.
  const dataDir = values["data-dir"] ?? (key ? undefined : SANDKEEP_DATA_DIR || undefined);
  const given: Values = {
    ...values,
    url,
    "data-dir": dataDir === undefined ? undefined : resolve(dataDir),
  };
  const flags = (Object.keys(options) as (keyof Values)[]).flatMap((name) => {
    const value = given[name];
    return value === undefined ? [] : [`--${name}`, value];
  });
  const { place, lines } = clientConfig(known, {
    command: context.program.command,
    args: [...context.program.args, "mcp", ...flags],
    // Without a key, the program reads it from its file.
    env: {
      ...(key && { SANDKEEP_API_KEY: key }),
      ...(certificates && { NODE_EXTRA_CA_CERTS: resolve(certificates) }),
    },
  });
  context.warn(place);
  for (const line of lines) context.print(line);
}

function noSuchClient([client = "", ...rest]: string[]): string {
  if (client === "" || rest.length > 0) return `Cannot configure a client: name one of ${clientNames.join(", ")}`;
  const meant = didYouMean(client, clientNames) || `There are ${clientNames.join(", ")}`;
  return `Cannot configure "${client}": there is no such client. ${meant}`;
}

/** a server that passes every request on to the daemon */
async function relay(daemon: McpDaemon, version: string): Promise<Server> {
  const { instructions } = await ask(daemon, "server/discover", {}).catch((): Record<string, unknown> => ({}));
  const server = new Server(
    { name: "sandkeep", title: "Sandkeep", version },
    {
      capabilities: { tools: { listChanged: false } },
      ...(typeof instructions === "string" && { instructions }),
    },
  );
  server.setRequestHandler("tools/list", async (_, { mcpReq }) => {
    const result = await shown(ask(daemon, "tools/list", {}, { signal: mcpReq.signal }));
    // The daemon's own server guarantees that this is a list of tools.
    return { tools: result.tools as [] };
  });
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    const progress = (report: Record<string, unknown>) =>
      void mcpReq
        .notify({ method: "notifications/progress", params: { ...report, progressToken } })
        .catch(() => undefined);
    const { content, structuredContent, isError } = await shown(
      ask(
        daemon,
        "tools/call",
        { name: params.name, arguments: params.arguments ?? {} },
        {
          name: params.name,
          signal: mcpReq.signal,
          ...(progressToken !== undefined && { progress }),
        },
      ),
    );
    return { content: content as [], ...(isError === true ? { isError } : { structuredContent }) };
  });
  return server;
}

/** passes the daemon's refusals on with their codes */
async function shown<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof McpRefusal ? new ProtocolError(error.code, error.message) : error;
  }
}
