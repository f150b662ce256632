/**
 * Signed URLs of files: the holder of one may read or write one file, until the URL expires.
 *
 *   signature=v1_<base64 of SHA-256 over path:operation:user:token, or path:operation:user:token:expiry, without "=">
 *
 * The path is exactly the text in the URL, the user may be empty, and the expiry is in seconds since 1970.
 */

import { createHash, type Hash } from "node:crypto";
import { Refusal } from "../../kit/refusal.ts";
import type { IssuedTokens } from "../access/issued-tokens.ts";
import { isSame } from "../access/tokens.ts";

const form = /^v1_[A-Za-z0-9+/]{43}$/;
/** characters; no file has a longer path, no user a longer name, and no date is longer */
const longest = { path: 4095, username: 65, expiry: 32 };

/** Whose an address is, by its signature. */
export interface Signer {
  sandboxId: string;
  token: string;
}

/**
 * The sandbox and token that a request's URL was signed with; undefined without a signature. `sandboxId` is set if
 * the request names a sandbox. Comparisons take constant time.
 */
export function signerOf(
  request: Request,
  { issued, now, sandboxId }: { issued: IssuedTokens; now: number; sandboxId: string | undefined },
): Signer | undefined {
  const { searchParams, pathname } = new URL(request.url);
  const signature = searchParams.get("signature");
  if (signature === null || pathname !== "/files") return undefined;
  const [path = "", username = ""] = ["path", "username"].map((name) => searchParams.get(name) ?? "");
  const expiry = searchParams.get("signature_expiration") ?? undefined;
  // Anybody may ask: what cannot be right costs no hash.
  if (!form.test(signature) || path.length > longest.path || username.length > longest.username) throw wrong();
  if (expiry !== undefined && (expiry.length > longest.expiry || !(Number(expiry) * 1000 > now))) {
    throw new Refusal(401, "signature is already expired");
  }
  const operation = request.method === "POST" ? "write" : "read";
  const beginning = createHash("sha256").update(`${path}:${operation}:${username}:`);
  const end = expiry === undefined ? "" : `:${expiry}`;
  const known = sandboxId === undefined ? issued.newest() : issued.of(sandboxId).map((token) => ({ sandboxId, token }));
  let signer: Signer | undefined;
  for (const each of known) if (isSame(signature, signatureOf(beginning, each.token + end))) signer = each;
  if (!signer) throw wrong();
  return signer;
}

function wrong(): Refusal {
  return new Refusal(401, "Cannot use the address: its signature is wrong");
}

function signatureOf(beginning: Hash, rest: string): string {
  return `v1_${beginning.copy().update(rest).digest("base64").replace(/=+$/, "")}`;
}
