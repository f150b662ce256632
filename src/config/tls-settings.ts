/**
 * The operator's certificate for TLS: its two settings, and the files that they name. The files are read and checked as a
 * pair, so that a bad one stops the start with a sentence. No sentence has anything of the key in it.
 */

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { createSecureContext } from "node:tls";
import type { z } from "zod";
import { codeOf } from "../base/error-code.ts";
import { messageOf, SandkeepError } from "../core/model/errors.ts";
import { path, type Setting } from "./setting-values.ts";

// The compiler finds the type of each setting; written down, it would be all of this again.
export function tlsSettings(about: ReturnType<typeof z.registry<Setting>>) {
  return {
    tlsCert: path().optional().register(about, {
      env: "SANDKEEP_TLS_CERT",
      value: "file",
      meaning: "the certificate to serve HTTPS with (PEM), followed by those of its issuers",
      preset: "none; the daemon serves HTTP",
    }),
    tlsKey: path().optional().register(about, {
      env: "SANDKEEP_TLS_KEY",
      value: "file",
      meaning: "the private key of this certificate (PEM, without a password)",
      preset: "none",
    }),
  };
}

/** Settings that name the two files. */
export interface TlsPlaces {
  tlsCert?: string | undefined;
  tlsKey?: string | undefined;
}

/** A certificate that the daemon can serve with. */
export interface TlsIdentity {
  /** PEM, the server's own certificate first */
  cert: string;
  key: KeyObject;
  /** host names and addresses that the certificate is for; a name may begin with "*." */
  names: string[];
  /** ms since 1970 */
  validTo: number;
  /** whether clients accept the certificate for this host name or address */
  covers(host: string): boolean;
}

/** undefined if TLS is not configured; throws if it cannot work */
export function tlsIdentityOf({ tlsCert, tlsKey }: TlsPlaces): TlsIdentity | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsKey === undefined) throw refusal("SANDKEEP_TLS_CERT", tlsCert, "SANDKEEP_TLS_KEY should name its private key");
  if (tlsCert === undefined) throw refusal("SANDKEEP_TLS_KEY", tlsKey, "SANDKEEP_TLS_CERT should name its certificate");
  const cert = textIn("SANDKEEP_TLS_CERT", tlsCert);
  const own = certificateIn(cert, tlsCert);
  const key = keyIn(textIn("SANDKEEP_TLS_KEY", tlsKey), tlsKey);
  if (!own.checkPrivateKey(key)) {
    throw refusal("SANDKEEP_TLS_KEY", tlsKey, `it is not the key of the certificate in "${tlsCert}"`);
  }
  try {
    createSecureContext({ cert, key: pemOf(key) });
  } catch (cause) {
    throw refusal("SANDKEEP_TLS_CERT", tlsCert, messageOf(cause), cause);
  }
  return {
    cert,
    key,
    names: namesOf(own),
    validTo: own.validToDate.getTime(),
    covers: (host) => (isIP(host) === 0 ? own.checkHost(host) : own.checkIP(host)) !== undefined,
  };
}

/** what a TLS server of Node takes as the key */
export function pemOf(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}

/** sentences about why clients will refuse a certificate; `domain` is that of sandboxes' ports */
export function tlsProblems({ names, validTo, covers }: TlsIdentity, domain: string, now: number): string[] {
  const list = names.join(", ") || "no name";
  const [day] = new Date(validTo).toISOString().split("T");
  return [
    ...(validTo <= now ? [`The TLS certificate for ${list} expired on ${day}: clients will refuse it`] : []),
    ...(covers(`port.${domain}`)
      ? []
      : [`The TLS certificate is for ${list}, not for *.${domain}: clients will refuse the addresses of ports`]),
  ];
}

/** What can be said of the configured certificate without its key. */
export interface TlsFacts {
  names: string[];
  /** ms since 1970 */
  validTo: number;
  /** why a daemon cannot serve with it */
  error?: string;
  problems: string[];
}

/** undefined if TLS is not configured */
export function tlsFactsOf(config: TlsPlaces & { domain: string }, now: number): TlsFacts | undefined {
  try {
    const identity = tlsIdentityOf(config);
    if (!identity) return undefined;
    const { names, validTo } = identity;
    return { names, validTo, problems: tlsProblems(identity, config.domain, now) };
  } catch (error) {
    return { names: [], validTo: 0, error: messageOf(error), problems: [] };
  }
}

function textIn(setting: string, file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch (cause) {
    const why = unreadable[codeOf(cause) ?? ""] ?? messageOf(cause);
    throw refusal(setting, file, why, cause);
  }
}

const unreadable: Record<string, string> = {
  ENOENT: "there is no such file",
  EACCES: "the daemon's user may not read it",
  EISDIR: "it is a directory",
};

/** the first, which is the server's own */
function certificateIn(text: string, file: string): X509Certificate {
  const [pem] = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/.exec(text) ?? [];
  if (pem === undefined) throw refusal("SANDKEEP_TLS_CERT", file, "it has no certificate in PEM");
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw refusal("SANDKEEP_TLS_CERT", file, "its first certificate cannot be read", cause);
  }
}

function keyIn(text: string, file: string): KeyObject {
  const [pem] = /-----BEGIN ([A-Z ]*)PRIVATE KEY-----[\s\S]*?-----END \1PRIVATE KEY-----/.exec(text) ?? [];
  if (pem === undefined) throw refusal("SANDKEEP_TLS_KEY", file, "it has no private key in PEM");
  try {
    return createPrivateKey(pem);
  } catch {
    // Without the cause: a log shows all of an error, and this one is about the key.
    const isLocked = /ENCRYPTED/.test(pem);
    const why = isLocked ? "it has a password, and the daemon knows none" : "its private key cannot be read";
    throw refusal("SANDKEEP_TLS_KEY", file, why);
  }
}

/** of "DNS:a.example, IP Address:192.0.2.1" */
function namesOf({ subjectAltName = "" }: X509Certificate): string[] {
  return [...subjectAltName.matchAll(/(?:DNS|IP Address):([^,\s"]+)/g)].map(([, name = ""]) => name);
}

function refusal(setting: string, file: string | undefined, why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot use ${setting} "${file}": ${why}`, { cause });
}
