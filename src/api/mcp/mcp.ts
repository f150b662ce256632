/**
 * MCP's place in the API. The protocol's library and the schemas of the tools take 10 MB of memory, so they are loaded
 * with the first request that needs them.
 */

import { isSandkeepError } from "../../core/model/errors.ts";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { json } from "../kit/http.ts";
import { loadedLater } from "../kit/loaded-later.ts";
import { mcpExamples } from "./examples.ts";
import { familyPaths } from "./paths.ts";

const paths = familyPaths.map((path) => path.slice(1)).join("|");

const path = new RegExp(`^/(${paths}|\\.well-known/oauth-protected-resource(/(${paths}))?)$`);

export function createMcp(service: Service): ApiDialect {
  const load = loadedLater(async () => (await import("./endpoints.ts")).mcpApi(service));
  const fetch = async (request: Request) => {
    try {
      return await (await load()).fetch(request);
    } catch (error) {
      if (!isSandkeepError(error, "unavailable")) throw error;
      return json({ jsonrpc: "2.0", error: { code: -32603, message: error.message }, id: null }, 503);
    }
  };
  return { wire: "mcp", examples: mcpExamples, mounts: [{ path, app: { fetch } }] };
}
