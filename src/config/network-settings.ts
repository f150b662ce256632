/**
 * The operator's network settings and the certificate authorities that this host trusts: input of the egress process
 * and of sandboxes. Files are read and checked once, at the start, so that a bad one stops the start.
 */

import { X509Certificate } from "node:crypto";
import { Resolver } from "node:dns";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { messageOf, SandkeepError } from "../core/model/errors.ts";
import type { EgressSettings } from "../core/ports/egress-settings.ts";
import type { Config } from "./config.ts";

export function egressSettingsOf(config: Config): Omit<EgressSettings, "forwardHeaders"> {
  return {
    allow: config.egressAllow,
    deny: config.egressDeny,
    // The egress process does not see the host's files.
    resolvers: config.dns.length > 0 ? config.dns : new Resolver().getServers(),
    roots: [...new Set([...certificatesIn(hostBundle("/")), ...configured(config)])],
    ...(config.egressProxy && {
      proxy: { ...config.egressProxy, names: config.egressProxyNames, direct: config.egressNoProxy },
    }),
  };
}

/** The certificate authorities that programs in sandboxes trust because this host does. */
export interface TrustedRoots {
  /** those in no list of the distribution or of Node, such as a company's, and those of SANDKEEP_EGRESS_CA */
  pems: string[];
  /** the host's whole list */
  bundle: string;
}

export function trustedRootsOf(config: Config, root = "/"): TrustedRoots {
  const bundle = hostBundle(root);
  const common = new Set([...rootCertificates, ...distributed(root)].map(plain));
  const own = certificatesIn(bundle).filter((pem) => !common.has(plain(pem)));
  const all = new Map([...own, ...configured(config)].map((pem) => [plain(pem), pem]));
  return { pems: [...all.values()], bundle };
}

/** where Debian, Fedora, SUSE and Alpine keep the list that is made of all that a host believes */
const bundles = [
  "etc/ssl/certs/ca-certificates.crt",
  "etc/pki/tls/certs/ca-bundle.crt",
  "etc/ssl/ca-bundle.pem",
  "etc/ssl/cert.pem",
];

function hostBundle(root: string): string {
  return bundles.map((path) => textOf(join(root, path))).find((text) => text !== "") ?? "";
}

/** what the distribution brings: an image has its own version of it */
function distributed(root: string): string[] {
  const folder = join(root, "usr/share/ca-certificates/mozilla");
  return namesIn(folder).flatMap((name) => certificatesIn(textOf(join(folder, name))));
}

/** of SANDKEEP_EGRESS_CA; a file without certificates, or an unreadable one, stops the start */
function configured({ egressCa: file }: Config): string[] {
  if (file === undefined) return [];
  const refuse = (why: string, cause?: unknown) =>
    new SandkeepError("invalid", `Cannot use SANDKEEP_EGRESS_CA "${file}": ${why}`, { cause });
  let text: string;
  try {
    text = readFileSync(file, "latin1");
  } catch (cause) {
    throw refuse(messageOf(cause), cause);
  }
  const found = certificatesIn(text);
  if (found.length === 0) throw refuse("it has no certificate in PEM");
  return found.map((pem, at) => {
    try {
      return `${new X509Certificate(pem).toString().trim()}\n`;
    } catch (cause) {
      throw refuse(`certificate ${at + 1} of it cannot be read`, cause);
    }
  });
}

function certificatesIn(text: string): string[] {
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  return found.map((pem) => `${pem.replaceAll("\r", "")}\n`);
}

/** the same for one certificate however its lines are broken */
function plain(pem: string): string {
  return pem.replace(/-----[A-Z ]+-----|\s/g, "");
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
