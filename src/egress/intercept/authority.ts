/**
 * The certificate authority of one sandbox, which that sandbox trusts and no other. Its key and name are derived from a
 * secret of the installation and the sandbox's id, so they are nowhere on disk and yet the same after a stop, a resume
 * and a restart; of its certificate only the signature differs each time, which does not matter to programs that trust it.
 * The daemon derives what it is made of, and makes its certificate when a sandbox is to believe it; the egress process,
 * which never has that secret, makes its key when it first signs for a server.
 */

import {
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import { keepLast } from "../../base/bounded-map.ts";
import type { AuthoritySpec } from "../../core/network/network-policy.ts";
import { certificate } from "./certificate.ts";

export interface Authority {
  /** the key and certificate of a server named `host`, for programs in this sandbox */
  leafFor(host: string): SecureContext;
}

/** of the same name, serial number and key for the same secret and sandbox */
export function deriveAuthority(secret: Uint8Array, sandboxId: string): AuthoritySpec {
  const derive = (purpose: string, length: number) =>
    Buffer.from(hkdfSync("sha256", secret, "", `sandkeep authority 1 ${purpose} ${sandboxId}`, length)).toString("hex");
  return { keyMaterial: derive("key", 48), serial: derive("serial", 16) };
}

/** as PEM; the last few are remembered, because a certificate that is made again has another signature */
export function certificateOf(spec: AuthoritySpec): string {
  const made = certificates.get(spec.serial) ?? certify(spec);
  // Last in the map is most recently used.
  certificates.delete(spec.serial);
  certificates.set(spec.serial, made);
  keepLast(certificates, mostCertificates);
  return made;
}

const mostCertificates = 100;
const certificates = new Map<string, string>();

function certify(spec: AuthoritySpec): string {
  const { key, publicKey, name } = identityOf(spec);
  const content = {
    subject: name,
    issuer: name,
    serial: positive(Buffer.from(spec.serial, "hex")),
    notBefore: Date.UTC(2024, 0, 1),
    notAfter: Date.UTC(2049, 0, 1),
    publicKey,
    issuerKey: publicKey,
    role: "authority" as const,
  };
  return certificate(content, (bytes) => sign("sha256", bytes, key));
}

function identityOf({ keyMaterial }: AuthoritySpec): { key: KeyObject; publicKey: KeyObject; name: string } {
  const key = keyFrom(keyMaterial);
  const publicKey = createPublicKey(key);
  // Each has a name of its own: a fork trusts its origin's authority too, and programs look authorities up by name.
  const fingerprint = createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex");
  return { key, publicKey, name: `Sandkeep sandbox ${fingerprint.slice(0, 16)}` };
}

export function openAuthority(spec: AuthoritySpec, now: () => number = Date.now): Authority {
  const { key, publicKey: issuerKey, name: issuer } = identityOf(spec);
  return {
    leafFor(host) {
      const at = now();
      const id = `${issuer} ${host}`;
      const known = leaves.get(id);
      leaves.delete(id);
      const leaf = known && known.renewAt > at ? known : { context: issue(at), renewAt: at + renewAfter };
      // Last in the map is most recently used.
      leaves.set(id, leaf);
      keepLast(leaves, mostLeaves);
      return leaf.context;

      function issue(at: number): SecureContext {
        const pem = certificate(
          {
            subject: host,
            issuer,
            serial: positive(randomBytes(16)),
            notBefore: at - day,
            notAfter: at + leafLife,
            publicKey: leafKey().public,
            issuerKey,
            role: { host },
          },
          (content) => sign("sha256", content, key),
        );
        return createSecureContext({ cert: pem, key: leafKey().private, ecdhCurve: groups });
      }
    },
  };
}

/** without those that withstand quantum computers: they cost time, and traffic that never leaves the host cannot be recorded */
const groups = "X25519:prime256v1:secp384r1:secp521r1";

const day = 24 * 60 * 60 * 1000;
const leafLife = 7 * day;
const renewAfter = 5 * day;

/** most certificates of servers that are kept, of all sandboxes together; a hostile one can ask for any number of names */
const mostLeaves = 2_000;
const leaves = new Map<string, { context: SecureContext; renewAt: number }>();

/** All servers that this process stands in for have one key: it is known nowhere else, and gone when the process is. */
let pair: { public: KeyObject; private: string } | undefined;

function leafKey(): NonNullable<typeof pair> {
  if (!pair) {
    const made = generateKeyPairSync("ec", { namedCurve: "P-256" });
    pair = { public: made.publicKey, private: made.privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
  }
  return pair;
}

const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const size = 32;

/** a key on P-256 out of 48 bytes of key material in hex, so many that no key is likelier than another */
function keyFrom(material: string): KeyObject {
  const number = (BigInt(`0x${material}`) % (order - 1n)) + 1n;
  const secret = Buffer.from(number.toString(16).padStart(2 * size, "0"), "hex");
  const curve = createECDH("prime256v1");
  curve.setPrivateKey(secret);
  const point = curve.getPublicKey();
  const [x, y] = [point.subarray(1, 1 + size), point.subarray(1 + size)];
  const encoded = { d: secret.toString("base64url"), x: x.toString("base64url"), y: y.toString("base64url") };
  return createPrivateKey({ format: "jwk", key: { kty: "EC", crv: "P-256", ...encoded } });
}

/** serial numbers are positive and at most 20 bytes */
function positive(serial: Buffer): Buffer {
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  return serial;
}
