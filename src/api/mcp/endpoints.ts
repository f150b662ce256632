/**
 * MCP over streamable HTTP: checks access, and then serves a family of tools in both versions of the protocol. Up to
 * 2025-11-25 a client has a session (legacy.ts); from 2026-07-28 on each request is independent and has its own server.
 */

import { createMcpHandler, InMemoryServerEventBus, isLegacyRequest } from "@modelcontextprotocol/server";
import { isSandkeepError } from "../../core/model/errors.ts";
import type { Service } from "../kit/dialect.ts";
import { bodyText, excessOf, json } from "../kit/http.ts";
import { authenticated, foreignOriginResponse, metadataResponse, resourceOf } from "./access.ts";
import { serverFactory } from "./factory.ts";
import { type Family, families } from "./families.ts";
import { LegacySessions } from "./legacy.ts";
import type { McpDialect } from "./tool.ts";

type McpOptions = McpDialect & Pick<Service, "clock" | "conformanceFixtures">;

export function mcpApi(options: McpOptions): { fetch(request: Request): Promise<Response> } {
  const { core, publicUrl } = options;
  const endpoints = new Map<string, Endpoint>(families.map((family) => [family.path, endpointOf(family, options)]));

  return {
    async fetch(request) {
      const own = publicUrl();
      const { pathname } = new URL(request.url);
      const resource = resourceOf(pathname);
      if (resource !== undefined) return metadataResponse(request, `${own}${resource}`, own);
      const refused = foreignOriginResponse(request, own);
      if (refused) return refused;
      const caller = await authenticated(request, core.access, `${own}${pathname}`);
      if (caller instanceof Response) return caller;
      const endpoint = endpoints.get(pathname);
      if (!endpoint) return new Response(null, { status: 404 });
      const excess = request.method === "POST" ? await excessIn(request.clone()) : undefined;
      if (excess) return tooMuch(excess);
      if (await isLegacyRequest(request)) return endpoint.legacy.handle(request, caller);
      return endpoint.modern.fetch(request, { authInfo: caller });
    },
  };
}

/** what is too much in a body that the library would parse; it refuses one that is too long or no text by itself */
async function excessIn(request: Request): Promise<string | undefined> {
  try {
    return excessOf(await bodyText(request, longestBody));
  } catch (error) {
    if (isSandkeepError(error, "invalid")) return undefined;
    throw error;
  }
}

/** bytes, as in the library */
const longestBody = 4 << 20;

function tooMuch(excess: string): Response {
  const message = `Invalid Request: the JSON ${excess}`;
  return json({ jsonrpc: "2.0", error: { code: -32600, message }, id: null }, 400);
}

type Endpoint = ReturnType<typeof endpointOf>;

function endpointOf(family: Family, options: McpOptions) {
  const { clock, logError } = options;
  const bus = new InMemoryServerEventBus(logError);
  const factory = serverFactory(options, family, async () => {
    if (!options.conformanceFixtures) return undefined;
    const { fixtures } = await import("./fixtures/fixtures.ts");
    return fixtures(bus);
  });
  return {
    modern: createMcpHandler(factory, { legacy: "reject", bus }),
    legacy: new LegacySessions({ factory, clock, logError }),
  };
}
