/** Seals secrets for storage (AES-256-GCM) with a key of this host, which is a file beside the database, not in it. */

import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { writeDurably } from "../base/files/durable-file.ts";
import type { Seal } from "../core/context.ts";
import { SandkeepError } from "../core/model/errors.ts";

const keyLength = 32;
const nonceLength = 12;
const tagLength = 16;
const prefix = "sealed:1:";

/** reads the key, or makes one at the first start */
export function openSeal(keyFile: string): Seal {
  const key = keyIn(keyFile);
  return {
    isSealed: (text) => text.startsWith(prefix),
    seal(text) {
      const nonce = randomBytes(nonceLength);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return prefix + Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
    },
    open(sealed) {
      const bytes = Buffer.from(sealed.slice(prefix.length), "base64url");
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceLength));
      decipher.setAuthTag(bytes.subarray(nonceLength, nonceLength + tagLength));
      try {
        const text = [decipher.update(bytes.subarray(nonceLength + tagLength)), decipher.final()];
        return Buffer.concat(text).toString("utf8");
      } catch (cause) {
        throw new SandkeepError("internal", "Cannot open a sealed secret: another key sealed it", { cause });
      }
    },
  };
}

/** a secret for one purpose, always the same; it reveals neither the key nor the secrets for other purposes */
export function secretFor(purpose: string, keyFile: string): Buffer {
  return Buffer.from(hkdfSync("sha256", keyIn(keyFile), "", `sandkeep ${purpose}`, keyLength));
}

/** proves, by HMAC-SHA256 in hexadecimal, that this daemon made a text for one purpose */
export function signerFor(purpose: string, keyFile: string): (text: string) => string {
  const secret = secretFor(purpose, keyFile);
  return (text) => createHmac("sha256", secret).update(text).digest("hex");
}

/** how keys are stored: enough to recognize one, but useless to a reader of the database */
export function hashKey(secret: string): string {
  return hash("sha256", secret, "hex");
}

/**
 * A proof of the key is beside it. With another key, nothing that was sealed could be read: environments of sandboxes,
 * secrets, passwords of registries.
 */
function keyIn(file: string): Buffer {
  const proofFile = `${file}.proof`;
  const proof = existsSync(proofFile) ? readFileSync(proofFile, "utf8") : undefined;
  if (!existsSync(file)) {
    if (proof !== undefined) throw refusal(file, "is missing", "the next start makes a new key");
    writeDurably(file, randomBytes(keyLength));
  }
  const key = readFileSync(file);
  const isKey = key.length === keyLength;
  if (!isKey && proof === undefined) throw refusal(file, `is not a key of ${keyLength} bytes`);
  const expected = createHmac("sha256", key).update("sandkeep proof of the key").digest("hex");
  if (!isKey || (proof !== undefined && proof !== expected)) {
    throw refusal(file, "is not the key that was used here before", "this key is used from the next start on");
  }
  if (proof === undefined) writeDurably(proofFile, expected);
  return key;
}

function refusal(file: string, what: string, next?: string): SandkeepError {
  const giveUp = `, or, to give up what was sealed with it, delete "${file}.proof": ${next}`;
  const how = `restore it from a backup${next === undefined ? "" : giveUp}`;
  return new SandkeepError("conflict", `Cannot open sealed secrets: "${file}" ${what}; ${how}`);
}
