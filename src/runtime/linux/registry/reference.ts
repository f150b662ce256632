/**
 * Names of images in registries: registry/repository:tag@digest. A name whose first part is not a host name belongs to
 * Docker's registry, where official images are below library/.
 */

import { SandkeepError } from "../../../core/model/errors.ts";

export interface Reference {
  /** host, with a port where it has one */
  registry: string;
  repository: string;
  tag?: string | undefined;
  /** digest of a manifest or an index, as 64 hexadecimal digits */
  digest?: string | undefined;
}

const dockers = "docker.io";
/** the real host of the registry of that name */
const dockersHost = "registry-1.docker.io";

export function parseReference(text: string): Reference {
  const refuse = (why: string) => new SandkeepError("invalid", `Cannot pull ${JSON.stringify(text)}: ${why}`);
  if (text.length > longest) throw refuse(`a name has at most ${longest} characters`);
  const [path = "", digest, ...rest] = text.split("@");
  if (rest.length > 0 || (digest !== undefined && !/^sha256:[0-9a-f]{64}$/.test(digest))) {
    throw refuse("a digest is sha256: and 64 hexadecimal digits");
  }
  const parts = path.split("/");
  const [first = ""] = parts;
  const hasHost = parts.length > 1 && (/[.:]/.test(first) || first === "localhost");
  const registry = hasHost ? first.toLowerCase() : dockers;
  if (!isRegistry(registry)) throw refuse(`"${registry}" is no host name`);
  const [, name = "", tag] = /^(.*?)(?::([^:/]*))?$/.exec((hasHost ? parts.slice(1) : parts).join("/")) ?? [];
  if (!/^[a-z0-9]+(?:[._/-]+[a-z0-9]+)*$/.test(name) || name.includes("//")) {
    throw refuse("a repository has lowercase letters, digits, and . _ - / between them");
  }
  if (tag !== undefined && !/^\w[\w.-]{0,127}$/.test(tag)) throw refuse("a tag is 1 to 128 of A-Z a-z 0-9 . _ -");
  const isOfficial = isDockers(registry) && !name.includes("/");
  return {
    registry: isDockers(registry) ? dockers : registry,
    repository: isOfficial ? `library/${name}` : name,
    ...(tag !== undefined || digest === undefined ? { tag: tag ?? "latest" } : {}),
    ...(digest !== undefined && { digest: digest.slice("sha256:".length) }),
  };
}

/** the full name, for errors and records */
export function fullName({ registry, repository, tag, digest }: Reference): string {
  const version = digest === undefined ? `:${tag ?? "latest"}` : `@sha256:${digest}`;
  return `${registry}/${repository}${version}`;
}

/**
 * The image's name in the store: without default parts, and with a tag in the place of a digest, because an image's
 * name has no @.
 */
export function storedName({ registry, repository, tag, digest }: Reference): string {
  const plain = registry === dockers ? repository.replace(/^library\//, "") : `${registry}/${repository}`;
  if (digest !== undefined) return `${plain}:sha256-${digest}`;
  return tag === undefined || tag === "latest" ? plain : `${plain}:${tag}`;
}

/** the host that a registry's requests go to */
export function hostOf(registry: string): string {
  return registry === dockers ? dockersHost : registry;
}

/** whether it is a host name or an address, with or without a port */
export function isRegistry(text: string): boolean {
  return /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*(?::\d{1,5})?$/.test(text);
}

/** whether a list such as "ghcr.io,registry.example.com/team" contains a registry or a part of it; "*" contains all */
export function isListed(list: readonly string[], { registry, repository }: Reference): boolean {
  return list.some((entry) => entry === "*" || `${registry}/${repository}/`.startsWith(`${entry}/`));
}

function isDockers(registry: string): boolean {
  return [dockers, "index.docker.io", dockersHost].includes(registry);
}

const longest = 512;
