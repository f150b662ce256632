/**
 * The names of images on Vercel's wire. A name has up to four parts: registry/repository:tag@digest. Images that Vercel
 * manages are below vercel/ in its registry, and have short names ("node:22"). If such an image was not imported, the
 * default image runs instead.
 */

import type { WantedImage } from "../../core/images/images.ts";
import { badRequest } from "./errors.ts";

/** images with short names */
const managed = ["universal", "ubuntu", "node", "python", "arch"];
const managedFolder = "vercel/sandbox/";
const vendorsFolder = "vercel/";
const vendorsRegistry = "vcr.vercel.com";

/** the name of the default image */
export const defaultImageName = `${managedFolder}universal`;

/** the images that may serve a caller who names this one */
export function wantedImage(text: string): WantedImage {
  const { repository, tag, digest } = partsOf(text);
  if (tag !== undefined && !/^\w[\w.-]{0,127}$/.test(tag)) throw badRequest(invalid(text, "its tag is not valid"));
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

/** an image's repository and digest, the name that answers show */
export function pinnedName(name: string | undefined, digest: string | undefined): string {
  const repository = name === undefined ? defaultImageName : partsOf(name).repository;
  return digest === undefined ? repository : `${repository}@sha256:${digest}`;
}

/** names that the default image fits exactly: it has the usual tools and Node 24 */
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
  // As in other image names, a first part with a dot or a port is a host.
  const isRegistry = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? "");
  const [, repository = "", tag] = /^(.*?)(?::([^:/]*))?$/.exec((isRegistry ? parts.slice(1) : parts).join("/")) ?? [];
  return { repository, tag, digest };
}
