/**
 * Access control. Requests from pages of foreign origins are refused, since a browser may have been tricked into
 * sending them. All others need a key; the refusal says where to get one.
 */

import {
  type AuthInfo,
  getOAuthProtectedResourceMetadataUrl,
  localhostAllowedOrigins,
  OAuthError,
  OAuthErrorCode,
  originValidationResponse,
  requireBearerAuth,
} from "@modelcontextprotocol/server";
import type { Core } from "../../core/core.ts";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Scope } from "../../core/model/scope.ts";
import type { NetworkPolicy } from "../../core/network/network-policy.ts";
import { policyOfText } from "../../core/network/policy-text.ts";
import { abortWhenEnded, addressOf, json } from "../kit/http.ts";
import { retryAfter } from "../kit/refusal.ts";
import type { Client } from "./tool.ts";

const metadataPrefix = "/.well-known/oauth-protected-resource";

/** the path of the resource that a metadata path describes, by default our own tools; undefined for other paths */
export function resourceOf(path: string): string | undefined {
  if (path === metadataPrefix) return "/mcp";
  return path.startsWith(`${metadataPrefix}/`) ? path.slice(metadataPrefix.length) : undefined;
}

const longestToken = 8192;
/** lifetime in seconds that the token check requires; keys themselves do not expire */
const keyLife = 3600;

/** the refusal for a page of a foreign origin; undefined for allowed requests */
export function foreignOriginResponse(request: Request, publicUrl: string): Response | undefined {
  return originValidationResponse(request, [...localhostAllowedOrigins(), new URL(publicUrl).hostname]);
}

/**
 * The header with which the person who sets up a connection allows its model to widen network policies up to a ceiling.
 * Without it, a model can only narrow the policy of a sandbox: what an operator has closed stays closed.
 */
const ceilingHeader = "sandkeep-policy-ceiling";

function ceilingOf(request: Request): NetworkPolicy | Response | undefined {
  const text = request.headers.get(ceilingHeader);
  if (text === null) return undefined;
  try {
    return policyOfText(text);
  } catch (error) {
    if (!isSandkeepError(error, "invalid")) throw error;
    return json({ jsonrpc: "2.0", error: { code: -32_600, message: error.message }, id: null }, 400);
  }
}

function limited(scope: Scope | undefined, ceiling: NetworkPolicy | undefined): Scope {
  if (!ceiling) return { ...scope, narrowsOnly: true };
  return { ...scope, ceilings: [...(scope?.ceilings ?? []), ceiling] };
}

/** the caller's authentication, or the refusal; the key's id serves as the client id */
export async function authenticated(
  request: Request,
  access: Pick<Core["access"], "authenticate">,
  resource: string,
): Promise<AuthInfo | Response> {
  const project = new URL(request.url).searchParams.get("project") ?? undefined;
  const ceiling = ceilingOf(request);
  if (ceiling instanceof Response) return ceiling;
  let refused: SandkeepError | undefined;
  const verifyAccessToken = async (token: string): Promise<AuthInfo> => {
    if (token.length > longestToken) throw invalidToken();
    const caller = await access.authenticate(token, addressOf(request)).catch((error) => {
      if (isSandkeepError(error, "limit")) refused = error;
      throw isSandkeepError(error, "unauthenticated") || refused ? invalidToken() : error;
    });
    abortWhenEnded(request, caller.ended);
    const client: Client = { caller: { ...caller, scope: limited(caller.scope, ceiling) }, project };
    const expiresAt = Math.floor(Date.now() / 1000) + keyLife;
    return { token, clientId: caller.keyId ?? caller.teamId, scopes: [], expiresAt, extra: { [clientKey]: client } };
  };
  const answer = await requireBearerAuth({
    verifier: { verifyAccessToken },
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(resource)),
  })(request);
  return refused ? json({ error: "slow_down", error_description: refused.message }, 429, retryAfter(refused)) : answer;
}

const clientKey = "client";

/** the client that authenticated() accepted */
export function clientOf(authInfo: AuthInfo | undefined): Client {
  const client = authInfo?.extra?.[clientKey];
  if (!client) throw new SandkeepError("internal", "Cannot tell the caller: the request was not authenticated");
  return client as Client; // what authenticated() put there
}

/** the protected resource metadata of RFC 9728: what this resource is, and which server issues its keys */
export function metadataResponse(request: Request, resource: string, publicUrl: string): Response {
  const open = { "access-control-allow-origin": "*" };
  if (request.method !== "GET") return json({ error: "method_not_allowed" }, 405, { allow: "GET", ...open });
  return json(
    {
      resource,
      resource_name: "Sandkeep",
      authorization_servers: [publicUrl],
      bearer_methods_supported: ["header"],
    },
    200,
    open,
  );
}

function invalidToken(): OAuthError {
  return new OAuthError(OAuthErrorCode.InvalidToken, "Cannot authenticate: no team has this key");
}
