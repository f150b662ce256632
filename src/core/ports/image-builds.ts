/** What image builds need of the runtime besides machines: contexts, cached steps, and publishing images. */

import type { Readable } from "node:stream";
import type { ImageConfig } from "../model/image.ts";
import type { ImageInfo } from "./images.ts";

export interface ImageBuilds {
  /** throws if an image cannot have this name */
  checkName(name: string): void;
  /**
   * takes a tar (plain, gzip or zstd) of files that a build may copy; it is gone when it is closed, or with this process.
   * `closed` is called once nothing of it is left, also if it was refused
   */
  receive(tar: AsyncIterable<Uint8Array>, closed?: () => void): Promise<BuildContext>;
  /** stores a tar for later builds, on the disk before this resolves; replaces what the key had */
  keepUpload(key: string, tar: AsyncIterable<Uint8Array>): Promise<void>;
  hasUpload(key: string): Promise<boolean>;
  /** the files of a stored tar; undefined if there is none. This counts as a use */
  openUpload(key: string): Promise<BuildContext | undefined>;
  /** the key of the image that the step of this key left; this counts as a use */
  find(step: string): Promise<string | undefined>;
  /**
   * stores a snapshot's files as the result of a step and deletes the snapshot; returns the key of the image to boot
   */
  keep(step: string, snapshotId: string): Promise<string>;
  /** the key of an image that has only what every sandbox needs */
  scratch(): Promise<string>;
  /** creates an image with the files of the image of this key */
  publish(key: string, image: NewImage): Promise<ImageInfo>;
  /** creates an image with the files of a snapshot, which stays; other settings come from the snapshot's image */
  publishSnapshot(snapshotId: string, image: Pick<NewImage, "name" | "owner">): Promise<ImageInfo>;
  /** bytes on the disk of a team's own images without what the host's images have too; of layers in several, once */
  diskOf(team: string, change?: ImageChange): Promise<number>;
  /** a tar that is an OCI archive and a `docker save` archive in one; `key` as machines name the image. The signal ends it */
  export(key: string, signal?: AbortSignal): Promise<Readable>;
  /** deletes the files of steps and uploads that no build has used since then; how many went */
  prune(before: number): Promise<number>;
}

/** A change of a team's images, to see how much of the disk they would use after it. */
export interface ImageChange {
  /** name of an image that goes */
  without?: string | undefined;
  /** key of an image that comes */
  key?: string | undefined;
  /** the layers of one that has no key yet */
  layers?: readonly string[] | undefined;
}

export interface NewImage {
  name: string;
  /** the team */
  owner: string;
  env: Record<string, string>;
  user: string;
  cwd: string;
  config: ImageConfig;
}

/** Files that a client sent for a build. Paths are relative to its root, "". Links are followed within it. */
export interface BuildContext {
  /** hides paths from now on */
  ignore(ignored: (path: string) => boolean): void;
  /** the entry at a path, with links resolved; undefined if there is none. `keepsLinks`: a link itself counts as a file */
  find(path: string, options?: { keepsLinks?: boolean }): ContextEntry | undefined;
  /** names in a directory, sorted */
  names(directory: string): string[];
  /** the text of a small file, even of an ignored one */
  text(path: string): Promise<string | undefined>;
  /** digest of a file or of everything below a directory: names, types, permissions and contents */
  digest(path: string): string;
  /** the contents of a tar file, compressed or not; undefined if the file is not a tar */
  unpacked(path: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** a tar: of a file, one member with its name; of a directory, its contents with relative names */
  archive(path: string): AsyncIterable<Uint8Array>;
  close(): Promise<void>;
}

export interface ContextEntry {
  path: string;
  type: "file" | "directory";
}
