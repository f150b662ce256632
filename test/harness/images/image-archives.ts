/** Makes images for tests in the formats of other tools: `docker save` tars and OCI layouts, good ones and bad ones. */

import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type Header, pack } from "tar-stream";
import { vercelConventions } from "../../../src/api/vercel/conventions.ts";
import type { TestStore } from "./layer-tools.ts";

/** A member's header, with the extended fields that tar-stream writes and its type lacks. */
export type TarHeader = Partial<Omit<Header, "name" | "pax">> & { name: string; pax?: Record<string, string> };

export type Member = TarHeader & { content?: string | Buffer };

export async function tarOf(members: Member[]): Promise<Buffer> {
  const tar = pack();
  for (const { content = "", ...header } of members) tar.entry({ mtime: new Date(0), ...header }, content);
  tar.finalize();
  return Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
}

export function sha256(content: Buffer | string): string {
  return createHash("sha256").update(content).digest("hex");
}

export interface ImageParts {
  layers: Buffer[];
  /** compresses each layer's file */
  packed?: (tar: Buffer) => Buffer;
  config?: object;
  diffIds?: string[];
}

export const arch = process.arch === "arm64" ? "arm64" : "amd64";

export function configOf({ layers, config, diffIds }: ImageParts): string {
  const ids = diffIds ?? layers.map((layer) => `sha256:${sha256(layer)}`);
  return JSON.stringify({ architecture: arch, os: "linux", ...config, rootfs: { type: "layers", diff_ids: ids } });
}

/** the files of `docker save` */
export function dockerFiles(image: ImageParts, tag = "docker.io/library/tiny:latest"): Record<string, Buffer> {
  const { packed = (tar) => tar } = image;
  const config = Buffer.from(configOf(image));
  const names = image.layers.map((_, index) => `${index}/layer.tar`);
  const manifest = [{ Config: `${sha256(config)}.json`, RepoTags: [tag], Layers: names }];
  return {
    ...Object.fromEntries(image.layers.map((layer, index) => [names[index], packed(layer)])),
    [`${sha256(config)}.json`]: config,
    "manifest.json": Buffer.from(JSON.stringify(manifest)),
  };
}

/** the files of an OCI layout */
export function layoutFiles(image: ImageParts): Record<string, Buffer> {
  const { packed = (tar) => tar } = image;
  const files: Record<string, Buffer> = {};
  const blob = (content: Buffer) => {
    files[`blobs/sha256/${sha256(content)}`] = content;
    return { digest: `sha256:${sha256(content)}`, size: content.length };
  };
  const config = blob(Buffer.from(configOf(image)));
  const manifest = blob(Buffer.from(JSON.stringify({ config, layers: image.layers.map((tar) => blob(packed(tar))) })));
  const platform = { os: "linux", architecture: arch };
  const other = { digest: `sha256:${"0".repeat(64)}`, platform: { os: "linux", architecture: "s390x" } };
  const inner = blob(Buffer.from(JSON.stringify({ manifests: [other, { ...manifest, platform }] })));
  files["index.json"] = Buffer.from(JSON.stringify({ manifests: [inner] }));
  return files;
}

export function tarOfFiles(files: Record<string, Buffer>): Promise<Buffer> {
  return tarOf(Object.entries(files).map(([name, content]) => ({ name, content: content as unknown as string })));
}

export async function fileOf(at: TestStore, content: Buffer): Promise<string> {
  const path = join(at.path, "image.tar");
  await writeFile(path, content);
  return path;
}

export function stores(at: TestStore) {
  return { store: at.path, layers: at.layers, images: at.images, conventions: vercelConventions.image };
}
