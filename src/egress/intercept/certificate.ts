/**
 * Writes X.509 certificates (RFC 5280) of two kinds: of an authority, and of a server that one vouches for. Written by
 * hand because the library for it costs 70 ms and 20 MB where a process should be up at once.
 */

import { createHash, type KeyObject } from "node:crypto";
import { isIP } from "node:net";
import { bits, boolean, integer, objectId, octets, sequence, set, tagged, text, time } from "./der.ts";

export interface CertificateSpec {
  /** common names of its subject and of its issuer */
  subject: string;
  issuer: string;
  serial: Buffer;
  /** ms since 1970, before 2050 */
  notBefore: number;
  notAfter: number;
  publicKey: KeyObject;
  issuerKey: KeyObject;
  /** what it certifies: the right to sign others, or this one host */
  role: "authority" | { host: string };
}

/** as PEM; `sign` makes an ECDSA signature with SHA-256, in DER */
export function certificate(spec: CertificateSpec, sign: (content: Buffer) => Buffer): string {
  const content = sequence(
    tagged(0, integer(Buffer.of(2)), true),
    integer(spec.serial),
    ecdsaWithSha256,
    nameOf(spec.issuer),
    sequence(time(spec.notBefore), time(spec.notAfter)),
    nameOf(spec.subject),
    keyInfo(spec.publicKey),
    tagged(3, sequence(...extensionsOf(spec)), true),
  );
  const whole = sequence(content, ecdsaWithSha256, bits(sign(content)));
  const lines = whole.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

const ecdsaWithSha256 = sequence(objectId("1.2.840.10045.4.3.2"));
/** longest common name that X.509 allows */
const longestName = 64;

function extensionsOf({ role, publicKey, issuerKey }: CertificateSpec): Buffer[] {
  const keyIds = [
    extension("2.5.29.14", octets(keyId(publicKey))),
    extension("2.5.29.35", sequence(tagged(0, keyId(issuerKey), false))),
  ];
  if (role === "authority") {
    return [
      // It may sign servers, but no further authority.
      extension("2.5.29.19", sequence(boolean(true), integer(Buffer.of(0))), true),
      extension("2.5.29.15", bits(Buffer.of(0x06), 1), true),
      ...keyIds,
    ];
  }
  return [
    extension("2.5.29.19", sequence(), true),
    extension("2.5.29.15", bits(Buffer.of(0x80), 7), true),
    extension("2.5.29.37", sequence(objectId("1.3.6.1.5.5.7.3.1"))),
    // Without a subject this is the only name, and must not be overlooked.
    extension("2.5.29.17", sequence(alternativeName(role.host)), role.host.length > longestName),
    ...keyIds,
  ];
}

function extension(id: string, content: Buffer, critical = false): Buffer {
  return sequence(objectId(id), ...(critical ? [boolean(true)] : []), octets(content));
}

function alternativeName(host: string): Buffer {
  if (isIP(host) !== 0) throw new Error(`Cannot certify "${host}": only names are`);
  return tagged(2, Buffer.from(host, "latin1"), false);
}

function nameOf(name: string): Buffer {
  // A host with a longer name is known by its alternative name alone.
  if (name.length > longestName) return sequence();
  return sequence(set(sequence(objectId("2.5.4.3"), text(name))));
}

/** exporting a key takes a tenth of a millisecond, and the same few are used for all certificates */
const infos = new WeakMap<KeyObject, Buffer>();

function keyInfo(key: KeyObject): Buffer {
  const info = infos.get(key) ?? key.export({ type: "spki", format: "der" });
  infos.set(key, info);
  return info;
}

/** RFC 7093: any hash of the key will do */
function keyId(key: KeyObject): Buffer {
  return createHash("sha256").update(keyInfo(key)).digest().subarray(0, 20);
}
