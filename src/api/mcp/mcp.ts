/**
 * MCP's place in the API. The protocol's library and the schemas of the tools take 10 MB of memory, so they are loaded
 * with the first request that needs them.
 */

import type { ApiDialect, Service } from "../kit/dialect.ts";
import { mcpExamples } from "./examples.ts";
import { familyPaths } from "./paths.ts";

const paths = familyPaths.map((path) => path.slice(1)).join("|");

const path = new RegExp(`^/(${paths}|\\.well-known/oauth-protected-resource(/(${paths}))?)$`);

export function createMcp(service: Service): ApiDialect {
  let loading: Promise<{ fetch(request: Request): Promise<Response> }> | undefined;
  const load = async () => (await import("./endpoints.ts")).mcpApi(service);
  const fetch = async (request: Request) => {
    loading ??= load();
    return (await loading).fetch(request);
  };
  return { wire: "mcp", examples: mcpExamples, mounts: [{ path, app: { fetch } }] };
}
