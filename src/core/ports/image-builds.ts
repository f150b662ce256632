/** What builds of images need of the runtime besides machines: contexts, the files after each step, and images made of them. */

import type { Readable } from "node:stream";
import type { ImageConfig } from "../model/image.ts";
import type { ImageInfo } from "./runtime.ts";

export interface ImageBuilds {
  /** refuses what cannot be the name of an image */
  checkName(name: string): void;
  /** takes a tar (plain, gzip or zstd) of files that a build may copy; it is gone when it is closed, or with this process */
  receive(tar: AsyncIterable<Uint8Array>): Promise<BuildContext>;
  /** the key of the image that the step of this key left; this counts as a use */
  find(step: string): Promise<string | undefined>;
  /** keeps the files of a snapshot as those after a step; the snapshot is deleted. The key of the image to boot from */
  keep(step: string, snapshotId: string): Promise<string>;
  /** the key of an image with nothing in it but what every sandbox needs */
  scratch(): Promise<string>;
  /** an image with the files of another one, by its key */
  publish(key: string, image: NewImage): Promise<ImageInfo>;
  /** an image with the files of a snapshot, which stays; what is not given is as its image has it */
  publishSnapshot(snapshotId: string, image: Pick<NewImage, "name" | "owner">): Promise<ImageInfo>;
  /** a tar that is an OCI archive and a `docker save` archive in one; `key` as machines name the image */
  export(key: string): Promise<Readable>;
  /** deletes the files of steps that no build has used since then; how many went */
  prune(before: number): Promise<number>;
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

/** Files that a client sent for a build. Paths are relative to its root, which is "". Links are followed inside of it. */
export interface BuildContext {
  /** leaves paths out from now on */
  ignore(ignored: (path: string) => boolean): void;
  /** what is at a path, and where that is when links are followed; undefined where there is nothing */
  find(path: string): ContextEntry | undefined;
  /** names in a directory, sorted */
  names(directory: string): string[];
  /** a small text file, also one that is left out */
  text(path: string): Promise<string | undefined>;
  /** of a file, or of everything below a directory: names, types, permissions and contents */
  digest(path: string): string;
  /** what is in a file that is a tar, compressed or not; undefined when it is none */
  unpacked(path: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** of a file one member of its name, of a directory what is in it with relative names */
  archive(path: string): AsyncIterable<Uint8Array>;
  close(): Promise<void>;
}

export interface ContextEntry {
  path: string;
  type: "file" | "directory";
  size: number;
}
