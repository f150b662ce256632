/**
 * What Vercel's callers call images. A name has up to four parts: registry/repository:tag@digest. Images that Vercel
 * manages stand below vercel/ in its registry, and their short names ("node:22") mean the same. Where such an image was
 * not imported, the default image runs in its place.
 */

import type { WantedImage } from "../../core/images/images.ts";
import { badRequest } from "./errors.ts";

/** those with short names */
const managed = ["universal", "ubuntu", "node", "python", "arch"];
const managedFolder = "vercel/sandbox/";
const vendorsFolder = "vercel/";
const vendorsRegistry = "vcr.vercel.com";

/** how the default image is called */
export const defaultImageName = `${managedFolder}universal`;

/** what a caller that names this image gets */
export function wantedImage(text: string): WantedImage {
  const { repository, tag, digest } = partsOf(text);
  if (tag !== undefined && !/^\w[\w.-]{0,127}$/.test(tag)) throw badRequest(invalid(text, "its tag is none"));
  if (digest !== undefined && !/^sha256:[0-9a-f]{64}$/i.test(digest)) {
    throw badRequest(invalid(text, "its digest is not sha256: and 64 hexadecimal digits"));
  }
  const short = repository.startsWith(managedFolder) ? repository.slice(managedFolder.length) : repository;
  const names = repository === short ? [repository] : [repository, short];
  const tagged = (name: string) => (isLatest(tag) ? [name, `${name}:latest`] : [`${name}:${tag}`]);
  const isManaged = managed.includes(short) || repository.startsWith(vendorsFolder);
  return {
    name: text,
    candidates: [...new Set([text, text.replace(/@.*$/, ""), ...names.flatMap(tagged)])],
    others: [`${vendorsRegistry}/${repository}`, text.replace(/(:[^:/]*)?(@.*)?$/, "")].flatMap(tagged),
    digest: digest?.slice("sha256:".length).toLowerCase(),
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

function invalid(text: string, why: string): string {
  return `Invalid request: \`image\` "${text}" cannot be used: ${why}.`;
}

interface Parts {
  repository: string;
  tag: string | undefined;
  digest: string | undefined;
}

function partsOf(text: string): Parts {
  const [path = "", digest] = text.split(/@(.*)$/s);
  const parts = path.split("/");
  // As everywhere: a first part with a dot or a port is the name of a host.
  const isRegistry = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? "");
  const [, repository = "", tag] = /^(.*?)(?::([^:/]*))?$/.exec((isRegistry ? parts.slice(1) : parts).join("/")) ?? [];
  return { repository, tag, digest };
}
