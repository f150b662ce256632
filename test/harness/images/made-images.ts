/** Images for tests, made with umoci: each is a layer on another one, in one OCI layout. */

import { execFile } from "node:child_process";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface ImageMaker {
  /** the name of a made image for skopeo and umoci */
  at(tag: string): string;
  /** the image `tag`: that of `from`, with the files that `fill` puts into its root; "empty" has none */
  layer(tag: string, from: string, fill: (root: string) => Promise<unknown>): Promise<void>;
  /** changes settings of an image; see umoci-config(1) */
  config(tag: string, ...settings: string[]): Promise<void>;
}

export async function imageMaker(folder: string): Promise<ImageMaker> {
  const layout = join(folder, "layout");
  const umoci = (...args: string[]) => run("umoci", args);
  await umoci("init", "--layout", layout);
  await umoci("new", "--image", `${layout}:empty`);
  return {
    at: (tag) => `${layout}:${tag}`,
    async layer(tag, from, fill) {
      const bundle = join(folder, `bundle-${tag}-${from}`);
      await umoci("unpack", "--image", `${layout}:${from}`, bundle);
      await fill(join(bundle, "rootfs"));
      await umoci("repack", "--image", `${layout}:${tag}`, bundle);
    },
    config: async (tag, ...settings) => void (await umoci("config", "--image", `${layout}:${tag}`, ...settings)),
  };
}

/** busybox as the shell and some programs, with links */
export async function putBusybox(
  root: string,
  names = ["sh", "cat", "id", "ls", "echo", "pwd", "sleep"],
): Promise<void> {
  for (const path of ["bin", "etc"]) await mkdir(join(root, path), { recursive: true });
  await copyFile("/bin/busybox", join(root, "bin/busybox"));
  for (const name of names) await symlink("busybox", join(root, "bin", name));
  await writeFile(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nworker:x:1234:1234::/data:/bin/sh\n");
}
