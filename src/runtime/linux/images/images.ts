/**
 * The images that machines boot from first, by name. The content of a name may change (a new import, a host that was
 * upgraded), but machines and snapshots need the layers they began with. So each content has its own version:
 *
 *   <store>/images/<name>.json             which version the name stands for now
 *   <store>/images/<name>@<version>.json   an ImageRecord
 *   <store>/image-aliases.json             further names of images, given by the operator
 *
 * A version is deleted when no name, snapshot or machine refers to it. File names are encoded by encodeURIComponent().
 * If the image belongs to a team, a key takes the place of the name (imageKey()).
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import { imageKey } from "../../../core/model/image.ts";
import type { ImageInfo, Images } from "../../../core/ports/images.ts";
import { jsonNames, makePrivate } from "../storage/json-file.ts";
import { lastLoss, readKept, removeKept, writeKept } from "../storage/kept-record.ts";
import { RememberedRecords } from "../storage/remembered-records.ts";

/** the name of the image that is made of this host's own /usr */
export const hostImage = "host";

export interface ImageRecord extends ImageInfo {
  version: string;
  /**
   * the merged layer of all its layers in the store, where the store has subvolumes: the volume of every machine begins
   * as a copy of it. An image of an older version gets one at its first boot
   */
  base?: string | undefined;
  /** layers that are kept because other images may share them */
  kept?: string[] | undefined;
  /** a text that identifies its inputs, where it can be made again: the same inputs give the same text */
  fingerprint?: string | undefined;
}

/** the reference to one exact version, for snapshots and machines */
export function imageReference(image: Pick<ImageRecord, "name" | "owner" | "version">): string {
  return `${imageKey(image)}@${image.version}`;
}

/** the key in a reference, or the key itself */
export function imageName(nameOrReference: string): string {
  return nameOrReference.split("@", 1)[0] ?? nameOrReference;
}

export class ImageStore implements Images {
  /** the folder of the records */
  readonly folder: string;
  /** the file of the aliases */
  readonly #aliases: string;
  /** cache; a version never changes */
  readonly #versions = new Map<string, ImageRecord>();
  /** the versions of names, and the aliases: every create asks for them */
  readonly #records = new RememberedRecords();

  /** pulls images that callers name; set where the runtime has registries */
  pull?: Images["pull"];
  fetch?: Images["fetch"];
  checkReference?: Images["checkReference"];
  /** set where the snapshots are known */
  prune?: Images["prune"];
  /** set where the layers are known */
  sizes: Images["sizes"] = async () => ({ total: 0, shared: 0, own: 0 });

  constructor(store: string) {
    this.folder = join(store, "images");
    this.#aliases = join(store, "image-aliases.json");
  }

  async open(): Promise<void> {
    await makePrivate(this.folder);
  }

  /** finds an image by the name that a team's caller gives; without a team by key, or by reference for one version */
  async get(nameOrReference: string, team?: string): Promise<ImageRecord | undefined> {
    if (team !== undefined) {
      if (!isImageName(nameOrReference)) return undefined;
      return (await this.get(imageKey({ name: nameOrReference, owner: team }))) ?? this.get(nameOrReference);
    }
    const name = imageName(nameOrReference);
    if (!isImageKey(name)) return undefined;
    const version = name === nameOrReference ? await this.#current(name) : nameOrReference.slice(name.length + 1);
    if (version === undefined || !isVersion(version)) return undefined;
    const path = this.#versionPath(name, version);
    const known = this.#versions.get(path);
    if (known) return known;
    const file = await readKept(path, imageFile);
    const image = file && { ...file, digest: digestOf(file) };
    if (image) this.#versions.set(path, image);
    return image;
  }

  async list(team?: string): Promise<ImageRecord[]> {
    const names = (await jsonNames(this.folder)).filter((name) => !name.includes("@")).map(decodeURIComponent);
    const images = await Promise.all(names.map((name) => this.get(name)));
    return images
      .filter((image) => image !== undefined)
      .filter(({ owner }) => team === undefined || owner === undefined || owner === team)
      .sort((a, b) => (imageKey(a) < imageKey(b) ? -1 : 1));
  }

  /**
   * Makes the name stand for this content from now on. `base` is the layer that machines begin as a copy of, if it
   * exists already. The caller has claimed the layers: until the name is written, nothing else refers to them.
   */
  async put(image: Omit<ImageRecord, "version">): Promise<ImageRecord> {
    requireValid(image.name);
    if (image.owner !== undefined && !isOwner(image.owner)) {
      throw new SandkeepError("invalid", `Cannot name an image of the team "${image.owner}": that is no team`);
    }
    const key = imageKey(image);
    // As it is read again: in the file's order of fields.
    const digest = digestOf(imageFile.parse({ ...image, version: "" }));
    const version = digest.slice(0, versionLength);
    const base = image.base ?? (await this.get(`${key}@${version}`))?.base;
    const record: ImageRecord = { ...image, version, digest, ...(base !== undefined && { base }) };
    await writeKept(this.#versionPath(key, version), record);
    this.#versions.set(this.#versionPath(key, version), record);
    await writeKept(this.#namePath(key), { version: record.version });
    return record;
  }

  /** images by their further names */
  async aliases(): Promise<Record<string, string>> {
    return (await this.#records.read(this.#aliases, aliasFile)) ?? {};
  }

  /** makes the image available under this name, in which `*` stands for any text */
  async setAlias(pattern: string, image: string): Promise<void> {
    if (!isAlias(pattern)) {
      throw new SandkeepError(
        "invalid",
        `Cannot alias "${pattern}": it must be 1 to 255 of a-z A-Z 0-9 . _ / : @ - and *`,
      );
    }
    if (!(await this.get(image))) {
      throw new SandkeepError("not-found", `Cannot alias "${pattern}": there is no image named "${image}"`);
    }
    await writeKept(this.#aliases, { ...(await this.aliases()), [pattern]: image });
  }

  async deleteAlias(pattern: string): Promise<void> {
    const { [pattern]: image, ...others } = await this.aliases();
    if (image === undefined) {
      throw new SandkeepError("not-found", `Cannot delete the alias "${pattern}": there is no such alias`);
    }
    await writeKept(this.#aliases, others);
  }

  /** records the layer that its machines begin as a copy of */
  async setBase(image: ImageRecord, base: string): Promise<ImageRecord> {
    const path = this.#versionPath(imageKey(image), image.version);
    const record = { ...image, base };
    await writeKept(path, record);
    this.#versions.set(path, record);
    return record;
  }

  /** deletes the name; snapshots and machines that began with it keep their layers */
  async delete(name: string): Promise<void> {
    if (!(await this.get(name)) || imageName(name) !== name) {
      throw new SandkeepError("not-found", `Cannot delete image "${name}": there is no such image`);
    }
    await removeKept(this.#namePath(name));
  }

  /** the layers of every version that a name or one of the `references` stands for */
  async layersInUse(references: Iterable<string>): Promise<Set<string>> {
    const wanted = [...(await this.list()).map(imageReference), ...references];
    const images = await Promise.all(wanted.map((reference) => this.get(reference)));
    return new Set(images.flatMap((image) => (image ? layersOf(image) : [])));
  }

  /**
   * Deletes the versions that nothing refers to. The order keeps those that are about to get their name: the layers of a
   * version found here are claimed, or their claim was released after the name was written.
   */
  async collect(references: () => Promise<Iterable<string>>, claimedLayers: () => Promise<Set<string>>): Promise<void> {
    const versions = await this.versions();
    const claimed = await claimedLayers();
    const wanted = new Set([...(await references()), ...(await this.list()).map(imageReference)]);
    for (const reference of versions.filter((reference) => !wanted.has(reference))) {
      const image = await this.get(reference);
      if (!image || layersOf(image).some((id) => claimed.has(id))) continue;
      const path = this.#versionPath(imageKey(image), image.version);
      this.#versions.delete(path);
      await removeKept(path);
    }
  }

  /** references of all recorded versions, whether or not a name stands for them */
  async versions(): Promise<string[]> {
    return (await jsonNames(this.folder)).filter((name) => name.includes("@")).map(decodeURIComponent);
  }

  /** see kept-record.ts */
  lastLoss(): Promise<number> {
    return lastLoss(this.folder);
  }

  async #current(name: string): Promise<string | undefined> {
    return (await this.#records.read(this.#namePath(name), nameFile))?.version;
  }

  #namePath(name: string): string {
    return join(this.folder, `${encodeURIComponent(name)}.json`);
  }

  #versionPath(name: string, version: string): string {
    return join(this.folder, `${encodeURIComponent(name)}@${version}.json`);
  }
}

/** every layer of the store that it needs, or that other images may share */
export function layersOf({ layers, base, kept = [] }: ImageRecord): string[] {
  return [...(base === undefined ? [] : [base]), ...layers, ...kept];
}

/** refuses a name that no image of an operator or a team can have */
export function checkImageName(name: string): void {
  requireValid(name);
  if (name === hostImage) {
    throw new SandkeepError("invalid", `Cannot name an image "${name}": this is the name of this host's own /usr`);
  }
}

function requireValid(name: string): void {
  if (isImageName(name)) return;
  throw new SandkeepError(
    "invalid",
    `Cannot name an image "${name}": a name is 1 to 160 of a-z 0-9 . _ / : - and begins with a letter or digit; a tag may have A-Z too`,
  );
}

const nameFile = z.object({ version: z.string() });

const configFile = z.object({
  user: z.string(),
  cwd: z.string(),
  entrypoint: z.array(z.string()),
  command: z.array(z.string()),
  ports: z.array(z.string()),
  volumes: z.array(z.string()),
  labels: z.record(z.string(), z.string()),
  stopSignal: z.string().optional(),
  start: z.object({ command: z.string().optional(), ready: z.string().optional() }).optional(),
  shell: z.array(z.string()).optional(),
  onBuild: z.array(z.string()).optional(),
  author: z.string().optional(),
  builtAt: z.number().optional(),
  history: z.array(
    z.object({
      createdBy: z.string(),
      comment: z.string().optional(),
      createdAt: z.number().optional(),
      isEmpty: z.boolean().optional(),
    }),
  ),
});

const imageFile = z.object({
  name: z.string(),
  version: z.string(),
  layers: z.array(z.string()).min(1),
  base: z.string().optional(),
  env: z.record(z.string(), z.string()),
  user: z.string(),
  cwd: z.string(),
  createdAt: z.number(),
  fingerprint: z.string().optional(),
  roots: z.string().optional(),
  owner: z.string().optional(),
  kept: z.array(z.string()).optional(),
  config: configFile.optional(),
  source: z.object({ reference: z.string(), manifest: z.string(), index: z.string().optional() }).optional(),
  parts: z
    .array(
      z.object({
        diffId: z.string(),
        digest: z.string().optional(),
        packedSize: z.number().optional(),
        size: z.number(),
        layer: z.string(),
      }),
    )
    .optional(),
});

export function isImageName(name: string): boolean {
  return name.length <= longestName && /^[a-z0-9][a-z0-9._/:-]*?(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/.test(name);
}

function isImageKey(key: string): boolean {
  const [, owner, name = ""] = /^(?:~([^~]*)~)?(.*)$/s.exec(key) ?? [];
  return (owner === undefined || isOwner(owner)) && isImageName(name);
}

function isOwner(team: string): boolean {
  return /^[A-Za-z0-9_-]{1,40}$/.test(team);
}

/** short enough for a file name, with the key's other parts and after encodeURIComponent() */
const longestName = 160;

export function isAlias(pattern: string): boolean {
  return /^[a-zA-Z0-9*._/:@-]{1,255}$/.test(pattern);
}

const aliasFile = z.record(z.string(), z.string());

function isVersion(version: string): boolean {
  return /^[0-9a-f]{16}$/.test(version);
}

/** a version is the beginning of the digest, of this length */
const versionLength = 16;

type DigestFields = "layers" | "env" | "user" | "cwd" | "config";

/** the same for the same content, so that an image imported twice is one */
function digestOf({ layers, env, user, cwd, config }: Pick<ImageInfo, DigestFields>): string {
  const sorted = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify(config ? [layers, sorted, user, cwd, config] : [layers, sorted, user, cwd]))
    .digest("hex");
}
