/**
 * Proof of which sandbox a forwarded request comes from: a token (JWT, RS256) for the server it is forwarded to. The
 * daemon shows the key to check it with at /.well-known/jwks.
 */

import { randomUUID, sign } from "node:crypto";
import { keepLast } from "../../base/bounded-map.ts";
import type { ForwardIdentity } from "../../core/network/network-policy.ts";

/** how long a token is good for, and how long it is given again instead of a new one, in ms */
const life = 5 * 60_000;
const reuse = 60_000;
const mostTokens = 1_000;

const tokens = new Map<string, { token: string; madeAt: number }>();

/** `audience` is the URL as the policy has it; `now` in ms since 1970 */
export function tokenFor(identity: ForwardIdentity, audience: string, now: number): string {
  const { keyId, sandboxId, issuer, teamId, projectId, sandboxName } = identity;
  const id = [keyId, issuer, teamId, projectId, sandboxId, sandboxName, audience].join("\n");
  const known = tokens.get(id);
  if (known && now >= known.madeAt && now - known.madeAt < reuse) return known.token;
  const token = mint(identity, audience, now);
  tokens.delete(id);
  tokens.set(id, { token, madeAt: now });
  keepLast(tokens, mostTokens);
  return token;
}

function mint(identity: ForwardIdentity, audience: string, now: number): string {
  const seconds = Math.floor(now / 1000);
  const header = { alg: "RS256", typ: "JWT", kid: identity.keyId };
  const claims = {
    iss: identity.issuer,
    aud: audiencesOf(audience),
    sub: `team:${identity.teamId}:project:${identity.projectId}:sandbox:${identity.sandboxId}`,
    iat: seconds,
    nbf: seconds,
    exp: seconds + life / 1000,
    jti: randomUUID(),
    team_id: identity.teamId,
    project_id: identity.projectId,
    sandbox_id: identity.sandboxId,
    sandbox_name: identity.sandboxName,
  };
  const content = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  return `${content}.${sign("sha256", Buffer.from(content), identity.key).toString("base64url")}`;
}

/** the URL as it stands in the policy, and as the vendor's own helper knows it: without a query, or a slash at its end */
function audiencesOf(url: string): string | string[] {
  const { origin, pathname } = new URL(url);
  const plain = `${origin}${pathname.replace(/\/+$/, "")}`;
  return plain === url ? url : [url, plain];
}
