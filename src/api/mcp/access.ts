/**
 * Who may come in. A browser that was tricked into asking is refused by the names it says it comes from and goes to;
 * everybody else needs a key, and is told where one is had.
 */

import { isIP } from "node:net";
import {
  type AuthInfo,
  getOAuthProtectedResourceMetadataUrl,
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  OAuthError,
  OAuthErrorCode,
  originValidationResponse,
  requireBearerAuth,
} from "@modelcontextprotocol/server";
import type { Core } from "../../core/core.ts";
import { isSandkeepError } from "../../core/errors.ts";
import { json } from "../http.ts";

export const metadataPath = /^\/\.well-known\/oauth-protected-resource(\/mcp)?$/;

const longestToken = 8192;
/** keys do not expire, but whoever checks tokens wants to be told a time, in seconds */
const keyLife = 3600;

/** what is answered to whoever does not come from here; undefined for who may go on */
export function strangerResponse(request: Request, publicUrl: string): Response | undefined {
  const own = new URL(publicUrl).hostname;
  const host = hostnameOf(request.headers.get("host"));
  // A name can be made to point here by anybody; an address is what was connected to.
  const named = isIP(host.replace(/^\[|\]$/g, "")) ? [host] : [];
  return (
    hostHeaderValidationResponse(request, [...localhostAllowedHostnames(), own, ...named]) ??
    originValidationResponse(request, [...localhostAllowedOrigins(), own])
  );
}

/** the caller, or the answer to somebody who is none; a team is what the client of a token is here */
export async function authenticated(
  request: Request,
  access: Pick<Core["access"], "authenticate">,
  publicUrl: string,
): Promise<AuthInfo | Response> {
  const verifyAccessToken = async (token: string): Promise<AuthInfo> => {
    if (token.length > longestToken) throw invalidToken();
    const { teamId } = await access.authenticate(token).catch((error) => {
      throw isSandkeepError(error, "unauthenticated") ? invalidToken() : error;
    });
    return { token, clientId: teamId, scopes: [], expiresAt: Math.floor(Date.now() / 1000) + keyLife };
  };
  return requireBearerAuth({
    verifier: { verifyAccessToken },
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(`${publicUrl}/mcp`)),
  })(request);
}

/** RFC 9728: what this is, and who gives out keys for it */
export function metadataResponse(request: Request, publicUrl: string): Response {
  const open = { "access-control-allow-origin": "*" };
  if (request.method !== "GET") return json({ error: "method_not_allowed" }, 405, { allow: "GET", ...open });
  return json(
    {
      resource: `${publicUrl}/mcp`,
      resource_name: "Sandkeep",
      authorization_servers: [publicUrl],
      bearer_methods_supported: ["header"],
    },
    200,
    open,
  );
}

function invalidToken(): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, "Nobody has this key");
}

function hostnameOf(header: string | null): string {
  const url = `http://${header ?? ""}`;
  return URL.canParse(url) ? new URL(url).hostname : "";
}
