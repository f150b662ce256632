/**
 * A key in the shape of a JSON web token. Vercel's clients learn their team and project from the claims of such a token
 * and send the token unchanged, so `sandkeep env vercel` wraps a key in one. The token proves nothing but the key
 * inside: it is as secret as the key and not signed. What it may do depends on the key, never on its claims.
 */

export interface TokenScope {
  teamId: string;
  projectId: string;
}

const issuer = "sandkeep";
/** the year 2100, in seconds since 1970: clients try to refresh a token that is about to expire */
const expiry = 4_102_444_800;
/** longest text that is parsed, in characters; our tokens are shorter */
const longest = 4096;

export function makeOidcToken(key: string, { teamId, projectId }: TokenScope): string {
  const claims = { iss: issuer, owner_id: teamId, project_id: projectId, exp: expiry, key };
  // Some parsers require a signature that is not empty.
  return `${encoded({ alg: "none", typ: "JWT" })}.${encoded(claims)}.${issuer}`;
}

/** The key inside one of our tokens; undefined for any other text, which may be a plain key. */
export function keyOfToken(token: string): string | undefined {
  const [, payload, , ...rest] = token.length > longest ? [] : token.split(".");
  if (payload === undefined || rest.length > 0) return undefined;
  const claims = decoded(payload);
  if (typeof claims !== "object" || claims === null || !("iss" in claims) || !("key" in claims)) return undefined;
  return claims.iss === issuer && typeof claims.key === "string" && claims.key !== "" ? claims.key : undefined;
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, "base64url").toString());
  } catch {
    return undefined;
  }
}
