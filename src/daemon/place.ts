/** Where clients find the daemon and the ports of its sandboxes. */

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import type { TlsIdentity } from "../config/tls-settings.ts";
import { urlHost } from "./listening.ts";

/** Where the daemon is found. */
export interface Place {
  config: Config;
  /** the one it listens on, once it does */
  port: number;
  /** of the certificate that it serves HTTPS with, if it does */
  tls?: Pick<TlsIdentity, "names" | "covers"> | undefined;
}

/** writes where it listens into the data directory, for commands on this host; a daemon without this works, too */
export function recordAddress(url: string, { dataDir }: Pick<Config, "dataDir">): void {
  const path = join(dataDir, "address");
  try {
    writeFileSync(`${path}.new`, `${url}\n`, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // The disk may be full.
  }
}

export function publicUrlOf(place: Place): string {
  return place.config.publicUrl ?? listeningUrlOf(place);
}

/** its own address, whatever stands before it */
export function listeningUrlOf({ config, port, tls }: Place): string {
  if (!tls) return `http://${urlHost(config.host)}:${port}`;
  return new URL(`https://${hostOfCertificate(config, tls)}:${port}`).origin;
}

/** clients accept only a host that the certificate is for */
function hostOfCertificate({ host, domain }: Config, { names, covers }: NonNullable<Place["tls"]>): string {
  const address = urlHost(host);
  const candidates = [address.replace(/^\[|\]$/g, ""), domain, ...names.filter((name) => !name.startsWith("*"))];
  const found = candidates.find(covers) ?? address;
  return found.includes(":") && !found.startsWith("[") ? `[${found}]` : found;
}

/** where labels lead to sandboxes: what stands before the daemon stands before them too */
export function domainUrlOf(place: Place): string {
  const publicUrl = publicUrlOf(place);
  // Every answer with links asks for it, and it rarely changes.
  if (last?.text !== publicUrl) last = { text: publicUrl, url: new URL(publicUrl) };
  const { protocol, port } = last.url;
  return `${protocol}//${place.config.domain}${port === "" ? "" : `:${port}`}`;
}

let last: { text: string; url: URL } | undefined;
