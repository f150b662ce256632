/** Copies a directory of our own package, whose content is trusted, into an image, through any writer. */

import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { EntryOptions } from "./layer-writer.ts";

/** What LayerWriter and TreeWriter have in common. */
export interface FileMaker {
  directory(path: string, options?: EntryOptions): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  copyFile(from: string, to: string, options?: EntryOptions): Promise<void>;
}

/** how many files of a directory are copied at the same time */
const atOnce = 32;

/** `owner` is that of the directories. Files belong to root, as in the package: so they can be linked. */
export async function copyTree(
  maker: FileMaker,
  from: string,
  to: string,
  options: Pick<EntryOptions, "owner"> = {},
): Promise<void> {
  await maker.directory(to, options);
  const entries = await readdir(from, { withFileTypes: true });
  for (let i = 0; i < entries.length; i += atOnce) {
    await Promise.all(
      entries.slice(i, i + atOnce).map(async (entry) => {
        const [source, target] = [join(from, entry.name), join(to, entry.name)];
        if (entry.isSymbolicLink()) await maker.symlink(await readlink(source), target);
        else if (entry.isFile()) await maker.copyFile(source, target);
      }),
    );
  }
  for (const { name } of entries.filter((entry) => entry.isDirectory())) {
    await copyTree(maker, join(from, name), join(to, name), options);
  }
}
