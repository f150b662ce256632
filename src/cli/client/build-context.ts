/** Packs the files of a directory for a build, without those that its ignore file excludes. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Ignored, ignoredBy } from "../../base/files/path-patterns.ts";
import { byteString } from "../../base/tar/byte-string.ts";
import { TarWriter } from "../../base/tar/writer.ts";
import { CliError } from "../errors.ts";
import { packDirectory } from "../files/pack.ts";

export interface ContextOptions {
  directory: string;
  /** path of the Dockerfile below the directory, if it is there */
  file?: string | undefined;
  /** further files to send, by name */
  extra?: Record<string, string>;
}

/** a tar; reads files only as fast as it is sent */
export async function* packContext({ directory, file, extra = {} }: ContextOptions): AsyncGenerator<Buffer> {
  const ignored = await ignoredFor(directory, file);
  const always = new Set([file, ".dockerignore", `${file}.dockerignore`]);
  const tar = new TarWriter();
  for (const [name, content] of Object.entries(extra)) {
    yield* tar.small({ name: byteString(name), mode: 0o600 }, Buffer.from(content));
  }
  yield* packDirectory(tar, {
    directory: byteString(directory),
    ignored: (path) => ignored(path) && !always.has(path),
  });
  yield* tar.end();
}

async function ignoredFor(directory: string, file: string | undefined): Promise<Ignored> {
  const read = (name: string) => readFile(join(directory, name), "utf8").catch(() => undefined);
  const rules = (file && (await read(`${file}.dockerignore`))) ?? (await read(".dockerignore")) ?? "";
  try {
    return ignoredBy(rules);
  } catch (cause) {
    throw new CliError(`Cannot read the ignore file of "${directory}": ${(cause as Error).message}`);
  }
}
