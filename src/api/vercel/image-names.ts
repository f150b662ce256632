/**
 * What Vercel's callers call images. A name has up to four parts: registry/repository:tag@digest. Images that Vercel
 * manages stand below vercel/ in its registry, and their short names ("node:22") mean the same. Where such an image was
 * not imported, the default image runs in its place.
 */

import type { WantedImage } from "../../core/images.ts";

/** those with short names */
const managed = ["universal", "ubuntu", "node", "python", "arch"];
const managedFolder = "vercel/sandbox/";
const vendorsFolder = "vercel/";

/** how the default image is called */
export const defaultImageName = `${managedFolder}universal`;

/** what a caller that names this image gets */
export function wantedImage(text: string): WantedImage {
  const { repository, tag } = partsOf(text);
  const short = repository.startsWith(managedFolder) ? repository.slice(managedFolder.length) : repository;
  const names = repository === short ? [repository] : [repository, short];
  const tagged = names.flatMap((name) => (isLatest(tag) ? [name, `${name}:latest`] : [`${name}:${tag}`]));
  const isManaged = managed.includes(short) || repository.startsWith(vendorsFolder);
  return {
    name: text,
    candidates: [...new Set([text, text.replace(/@.*$/, ""), ...tagged])],
    digest: /@sha256:([0-9a-f]{64})$/i.exec(text)?.[1]?.toLowerCase(),
    ...(isManaged && { otherwise: isDefault(short, tag) ? "the-default" : "default-and-say-so" }),
  };
}

/** its repository and digest, as answers name an image */
export function pinnedName(name: string | undefined, digest: string | undefined): string {
  const repository = name === undefined ? defaultImageName : partsOf(name).repository;
  return digest === undefined ? repository : `${repository}@sha256:${digest}`;
}

/** the default image is what these are: everything that programs need, and Node 24 */
function isDefault(short: string, tag: string | undefined): boolean {
  return (short === "universal" && isLatest(tag)) || (short === "node" && (isLatest(tag) || tag === "24"));
}

function isLatest(tag: string | undefined): boolean {
  return tag === undefined || tag === "latest";
}

function partsOf(text: string): { repository: string; tag: string | undefined } {
  const [path = ""] = text.split("@", 1);
  const parts = path.split("/");
  // As everywhere: a first part with a dot or a port is the name of a host.
  const isRegistry = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? "");
  const [, repository = "", tag] = /^(.*?)(?::([^:/]*))?$/.exec((isRegistry ? parts.slice(1) : parts).join("/")) ?? [];
  return { repository, tag };
}
