/** Makes the server for one request, or for one session of the older protocol, with the same tools for every client. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { McpServer, type McpServerFactory, type McpServerOptions } from "@modelcontextprotocol/server";
import { packageFolder } from "../../base/files/package-folder.ts";
import { clientOf } from "./access.ts";
import type { Family } from "./families.ts";
import type { McpDialect } from "./tool.ts";

/** how long a client may cache the list of tools, in ms: it changes only with the daemon's version */
const listLife = 300_000;

const { version } = JSON.parse(readFileSync(join(packageFolder, "package.json"), "utf8"));

/** What the protocol's conformance suite needs in addition. */
export interface Fixtures {
  options: McpServerOptions;
  addTo(server: McpServer): void;
}

export function serverFactory(
  dialect: McpDialect,
  { instructions, tools }: Family,
  fixtures: () => Promise<Fixtures | undefined>,
): McpServerFactory {
  const all = tools(dialect);
  return async ({ authInfo }) => {
    const client = clientOf(authInfo);
    const extra = await fixtures();
    const server = new McpServer(
      { name: "sandkeep", title: "Sandkeep", version },
      {
        instructions,
        capabilities: { tools: { listChanged: false } },
        cacheHints: { "tools/list": { ttlMs: listLife, cacheScope: "private" } },
        ...extra?.options,
      },
    );
    for (const tool of all) tool.addTo(server, dialect, client);
    extra?.addTo(server);
    return server;
  };
}
