/**
 * Signed URLs of files: the holder of one may read or write one file, until the URL expires.
 *
 *   signature=v1_<base64 of SHA-256 over path:operation:user:token, or path:operation:user:token:expiry, without "=">
 *
 * The path is exactly the text in the URL, the user may be empty, and the expiry is in seconds since 1970.
 */

import { createHash } from "node:crypto";
import { Refusal } from "../../kit/refusal.ts";
import type { IssuedTokens } from "../issued-tokens.ts";
import { isSame } from "../tokens.ts";

/** The sandbox and token that a URL was signed with. */
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
  const expiry = searchParams.get("signature_expiration") ?? undefined;
  const operation = request.method === "POST" ? "write" : "read";
  const before = [searchParams.get("path") ?? "", operation, searchParams.get("username") ?? ""];
  const after = expiry === undefined ? [] : [expiry];
  const known = sandboxId === undefined ? issued.all() : issued.of(sandboxId).map((token) => ({ sandboxId, token }));
  let signer: Signer | undefined;
  for (const each of known) if (isSame(signature, signatureOf([...before, each.token, ...after]))) signer = each;
  if (!signer) throw new Refusal(401, "Cannot use the address: its signature is wrong");
  if (expiry !== undefined && !(Number(expiry) * 1000 > now)) throw new Refusal(401, "signature is already expired");
  return signer;
}

function signatureOf(parts: string[]): string {
  return `v1_${createHash("sha256").update(parts.join(":")).digest("base64").replace(/=+$/, "")}`;
}
