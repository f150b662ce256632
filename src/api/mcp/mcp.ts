/**
 * MCP over streamable HTTP: the door, and behind it one set of tools for both eras of the protocol. Up to 2025-11-25 a
 * client has a session (legacy.ts); from 2026-07-28 on each request stands alone, with a server of its own.
 */

import { createMcpHandler, InMemoryServerEventBus, isLegacyRequest } from "@modelcontextprotocol/server";
import { authenticated, metadataPath, metadataResponse, strangerResponse } from "./access.ts";
import { serverFactory } from "./factory.ts";
import { LegacySessions } from "./legacy.ts";
import type { McpDialect } from "./tool.ts";

export interface McpOptions extends McpDialect {
  /** ms since 1970 */
  clock: () => number;
  /** adds what the protocol's conformance suite asks for; for tests only */
  conformanceFixtures: boolean;
}

export const mcpPaths = /^\/(mcp|\.well-known\/oauth-protected-resource(\/mcp)?)$/;

export function mcpApi(options: McpOptions): { fetch(request: Request): Promise<Response> } {
  const { core, publicUrl, clock, trouble } = options;
  const bus = new InMemoryServerEventBus(trouble);
  const factory = serverFactory(options, async () => {
    if (!options.conformanceFixtures) return undefined;
    const { fixtures } = await import("./fixtures/fixtures.ts");
    return fixtures(bus);
  });
  const modern = createMcpHandler(factory, { legacy: "reject", bus });
  const legacy = new LegacySessions({ factory, clock, trouble });

  return {
    async fetch(request) {
      const own = publicUrl();
      if (metadataPath.test(new URL(request.url).pathname)) return metadataResponse(request, own);
      const stranger = strangerResponse(request, own);
      if (stranger) return stranger;
      const caller = await authenticated(request, core.access, own);
      if (caller instanceof Response) return caller;
      if (await isLegacyRequest(request)) return legacy.handle(request, caller);
      return modern.fetch(request, { authInfo: caller });
    },
  };
}
