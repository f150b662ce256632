/** The daemon's key for tokens that say which sandbox a request comes from: an RSA key in a file of its own, made when first needed. */

import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { writeDurably } from "../base/files/durable-file.ts";
import { SandkeepError } from "../core/model/errors.ts";

export interface SigningKey {
  keyId: string;
  /** PEM */
  key: string;
  /** what servers check tokens with: a JSON Web Key Set */
  jwks: { keys: object[] };
}

/** the key of this installation; reads or makes it when it is asked for, as making one takes a tenth of a second */
export function signingKeyIn(file: string): () => SigningKey {
  let known: SigningKey | undefined;
  return () => {
    known ??= open(file);
    return known;
  };
}

function open(file: string): SigningKey {
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    // Whole or not at all: half a key would be found at every start from now on.
    writeDurably(file, privateKey.export({ type: "pkcs8", format: "pem" }));
  }
  const key = readFileSync(file, "utf8");
  let jwk: ReturnType<ReturnType<typeof createPublicKey>["export"]>;
  try {
    jwk = createPublicKey(createPrivateKey(key)).export({ format: "jwk" });
  } catch (cause) {
    throw new SandkeepError("internal", `Cannot sign tokens: "${file}" is not a private key`, { cause });
  }
  const keyId = createHash("sha256").update(JSON.stringify(jwk)).digest("base64url").slice(0, 16);
  return { keyId, key, jwks: { keys: [{ ...jwk, kid: keyId, alg: "RS256", use: "sig" }] } };
}
