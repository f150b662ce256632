/** Packs the files of a directory for a build, without those that its ignore file excludes. */

import { createReadStream } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { type Pack, pack } from "tar-stream";
import { type Ignored, ignoredBy } from "../../base/path-patterns.ts";
import { CliError } from "../errors.ts";

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
  const tar = pack();
  const filling = fill(tar, directory, (path) => ignored(path) && !always.has(path), extra).then(
    () => tar.finalize(),
    (error) => tar.destroy(error),
  );
  try {
    for await (const chunk of tar) yield chunk as Buffer; // a packer only ever makes buffers
    await filling;
  } finally {
    tar.destroy();
  }
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

async function fill(tar: Pack, directory: string, ignored: Ignored, extra: Record<string, string>): Promise<void> {
  for (const [name, content] of Object.entries(extra)) {
    await entry(tar, { name, mode: 0o600, mtime: new Date(0) }, content);
  }
  await walk(tar, directory, "", ignored);
}

async function walk(tar: Pack, directory: string, below: string, ignored: Ignored): Promise<void> {
  for (const name of (await readdir(join(directory, below))).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const whole = join(directory, path);
    const facts = await lstat(whole);
    const header = { name: path, mode: facts.mode & 0o7777, mtime: facts.mtime, uid: 0, gid: 0 };
    // An ignored directory may hold a file that a later rule includes again.
    if (facts.isDirectory()) {
      if (!ignored(path)) await entry(tar, { ...header, type: "directory" });
      await walk(tar, directory, path, ignored);
    } else if (ignored(path)) continue;
    else if (facts.isSymbolicLink()) {
      await entry(tar, { ...header, type: "symlink", linkname: await readlink(whole) });
    } else if (facts.isFile()) await file(tar, { ...header, size: facts.size }, whole);
  }
}

type Header = Parameters<Pack["entry"]>[0];

function entry(tar: Pack, header: Header, content = ""): Promise<void> {
  return new Promise((resolve, reject) => {
    tar.entry(header, content, (error) => (error ? reject(error) : resolve()));
  });
}

/** sends exactly as many bytes as its header says, even if the file grows meanwhile */
function file(tar: Pack, header: Header & { size: number }, path: string): Promise<void> {
  if (header.size === 0) return entry(tar, header);
  return new Promise((resolve, reject) => {
    const sink = tar.entry(header, (error) => (error ? reject(error) : resolve()));
    const source = createReadStream(path, { end: header.size - 1 });
    source.on("error", reject);
    source.on("data", (chunk) => {
      if (sink.write(chunk)) return;
      source.pause();
      sink.once("drain", () => source.resume());
    });
    source.on("end", () => sink.end(null));
  });
}
