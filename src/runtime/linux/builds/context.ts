/**
 * The files that a client sent for a build. A context is not trusted, and none of its paths is ever used on the host.
 * The contents of all files are in one file without a name, one after the other, and an index in memory has their
 * places.
 */

import { createHash } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join, posix } from "node:path";
import { byteString, shownText, textOf } from "../../../base/tar/byte-string.ts";
import { type ReadMember, readTar } from "../../../base/tar/reader.ts";
import { TarWriter } from "../../../base/tar/writer.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import type { BuildContext, ContextEntry } from "../../../core/ports/image-builds.ts";
import { decompressed } from "../files/decompress.ts";
import { processTag } from "../layers/claims.ts";

/** paths and targets are byte strings */
type Node =
  | { type: "directory"; mode: number; modifiedAt: number; children: Set<string> }
  | { type: "file"; mode: number; modifiedAt: number; start: number; size: number; sha256: string }
  | { type: "symlink"; mode: number; modifiedAt: number; target: string };

const mostEntries = 200_000;
const longestPath = 4096;
/** most characters of all paths together */
const longestNames = 32 << 20;
const largestText = 1 << 20;
const mostLinks = 40;
const pieceLength = 1 << 18;

export interface ContextOptions {
  /** a folder for the contents; nothing in it outlives this process */
  scratch: string;
  /** most bytes of all files together */
  largest: number;
  /** most bytes of the archive itself; default enough for the largest allowed number of files */
  largestTar?: number;
  /** throws while the disk is short of room */
  requireRoom?: () => void;
  /** called once nothing of the context is left, also if it was refused */
  closed?: (() => void) | undefined;
}

export async function receiveContext(
  tar: AsyncIterable<Uint8Array>,
  { scratch, closed = () => undefined, ...limits }: ContextOptions,
): Promise<BuildContext> {
  const path = join(scratch, processTag());
  const file = await open(path, "wx+", 0o600).catch((error) => {
    closed();
    throw error;
  });
  const close = () => file.close().finally(closed);
  try {
    await rm(path);
    return new Context(file, await indexOf(tar, new Contents(file, limits)), close);
  } catch (error) {
    await close();
    throw isSandkeepError(error) ? error : refusal(`it is no whole tar file (${messageOf(error)})`, error);
  }
}

class Context implements BuildContext {
  readonly #file: FileHandle;
  readonly #close: () => Promise<void>;
  readonly #nodes: Map<string, Node>;
  #rules: (path: string) => boolean = () => false;
  /** cache: whether the rules ignore a path */
  readonly #ignored = new Map<string, boolean>();
  /** whether a directory that is left out holds something that is not, by path */
  readonly #open = new Map<string, boolean>();
  readonly #digests = new Map<string, string>();

  constructor(file: FileHandle, nodes: Map<string, Node>, close: () => Promise<void>) {
    this.#file = file;
    this.#close = close;
    this.#nodes = nodes;
  }

  ignore(ignored: (path: string) => boolean): void {
    this.#rules = ignored;
    this.#ignored.clear();
    this.#open.clear();
    this.#digests.clear();
  }

  find(path: string, { keepsLinks = false } = {}): ContextEntry | undefined {
    const found = this.#follow(byteString(path), keepsLinks);
    const node = found === undefined ? undefined : this.#node(found);
    const text = found === undefined ? undefined : textOf(found);
    if (text === undefined || !node) return undefined;
    return { path: text, type: node.type === "directory" ? "directory" : "file" };
  }

  /** without names that are no text: no instruction can spell them, but copies of directories have them */
  names(directory: string): string[] {
    const names = this.#names(byteString(directory)).map(textOf);
    return names.filter((name) => name !== undefined).sort();
  }

  async text(path: string): Promise<string | undefined> {
    const node = this.#nodes.get(byteString(path));
    if (node?.type !== "file") return undefined;
    if (node.size > largestText) throw refusal(`"${path}" is larger than ${largestText} bytes`);
    return Buffer.concat(await Array.fromAsync(this.#contents(node.start, node.size))).toString();
  }

  async unpacked(path: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const node = this.#nodes.get(byteString(path));
    if (node?.type !== "file") return undefined;
    const contents = () => this.#contents(node.start, node.size);
    const head = await beginning(contents());
    const packing = head.subarray(0, 3).equals(bzip2) ? "bzip2" : head.subarray(0, 6).equals(xz) ? "xz" : undefined;
    if (packing) {
      throw new SandkeepError("invalid", `Cannot unpack "${shown(path)}": archives in ${packing} are not supported`);
    }
    // A compressed file that is not a tar is treated as a plain file.
    const plain = await beginning(decompressed(contents())).catch(() => undefined);
    return plain?.subarray(257, 262).toString() === "ustar" ? decompressed(contents()) : undefined;
  }

  digest(path: string): string {
    const known = this.#digests.get(path);
    if (known !== undefined) return known;
    const hash = createHash("sha256");
    for (const { name, node } of this.#below(byteString(path))) {
      const what = node.type === "file" ? node.sha256 : node.type === "symlink" ? node.target : "";
      hash.update(JSON.stringify([name, node.type, node.mode, what]));
    }
    const digest = hash.digest("hex");
    this.#digests.set(path, digest);
    return digest;
  }

  async *archive(path: string): AsyncGenerator<Buffer> {
    const output = new TarWriter();
    for (const { name, node } of this.#below(byteString(path))) {
      if (name === "") continue;
      const { type, mode, modifiedAt } = node;
      const member = { name, type, mode, modifiedAt };
      if (type === "file") {
        yield* output.member({ ...member, size: node.size }, this.#contents(node.start, node.size));
      } else yield* output.member({ ...member, ...(type === "symlink" && { target: node.target }) });
    }
    yield* output.end();
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** a file under its own name, or a directory ("") and everything below it, parents first */
  *#below(path: string): Generator<{ name: string; node: Node }> {
    const node = this.#node(path);
    if (!node) return;
    if (node.type !== "directory") return yield { name: posix.basename(path), node };
    const waiting = [""];
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      const at = below(path, name);
      const found = this.#node(at);
      // A directory that is ignored may contain a file that is not.
      if (found && (name === "" || !this.#isIgnored(at) || found.type === "directory")) yield { name, node: found };
      if (found?.type === "directory") {
        for (const child of this.#names(at).reverse()) waiting.push(below(name, child));
      }
    }
  }

  #names(directory: string): string[] {
    const node = this.#nodes.get(directory);
    if (node?.type !== "directory") return [];
    return [...node.children].filter((name) => this.#node(below(directory, name))).sort();
  }

  #isIgnored(path: string): boolean {
    const known = this.#ignored.get(path);
    if (known !== undefined) return known;
    const isIgnored = this.#rules(shownText(path));
    this.#ignored.set(path, isIgnored);
    return isIgnored;
  }

  /** the entry, unless it is missing or ignored; an ignored directory counts if it contains a file that is not */
  #node(path: string): Node | undefined {
    const node = this.#nodes.get(path);
    if (!node || path === "" || !this.#isIgnored(path)) return node;
    if (node.type !== "directory") return undefined;
    // Every level asks for all levels below it: each is looked at once.
    let isOpen = this.#open.get(path);
    if (isOpen === undefined) {
      isOpen = [...node.children].some((name) => this.#node(below(path, name)));
      this.#open.set(path, isOpen);
    }
    return isOpen ? node : undefined;
  }

  /** the path with links resolved, except a last one that is kept; a link above the root leads to the root */
  #follow(path: string, keepsLast: boolean): string | undefined {
    let left = mostLinks;
    let at = "";
    const names = path.split("/").reverse();
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      if (name === "" || name === ".") continue;
      if (name === "..") {
        at = parentOf(at);
        continue;
      }
      const next = below(at, name);
      const node = this.#nodes.get(next);
      if (!node) return undefined;
      if (node.type !== "symlink" || (keepsLast && names.length === 0)) at = next;
      else if (left-- === 0) return undefined;
      else {
        if (node.target.startsWith("/")) at = "";
        names.push(...node.target.split("/").reverse());
      }
    }
    return at;
  }

  async *#contents(start: number, size: number): AsyncGenerator<Buffer> {
    for (let at = start; at < start + size; ) {
      const length = Math.min(pieceLength, start + size - at);
      const { bytesRead, buffer } = await this.#file.read(Buffer.allocUnsafe(length), 0, length, at);
      if (bytesRead === 0) throw new SandkeepError("internal", "Cannot read the build context: it became shorter");
      yield buffer.subarray(0, bytesRead);
      at += bytesRead;
    }
  }
}

const bzip2 = Buffer.from("BZh");
const xz = Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]);

/** the first block of a tar, or less if the content is shorter */
async function beginning(contents: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of contents) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= 512) break;
  }
  return Buffer.concat(chunks);
}

/** The contents of files, one after the other. */
class Contents {
  length = 0;
  readonly #file: FileHandle;
  readonly #limits: Omit<ContextOptions, "scratch" | "closed">;

  constructor(file: FileHandle, limits: Omit<ContextOptions, "scratch" | "closed">) {
    this.#file = file;
    this.#limits = limits;
  }

  /** room for all contents, and for the headers of the largest allowed number of files */
  get longestTar(): number {
    return this.#limits.largestTar ?? this.#limits.largest + mostEntries * 4096;
  }

  async write(chunk: Uint8Array): Promise<void> {
    const { largest, requireRoom } = this.#limits;
    if (this.length + chunk.length > largest) {
      throw new SandkeepError("limit", `Cannot take the build context: it is larger than ${largest} bytes`);
    }
    requireRoom?.();
    await this.#file.write(chunk, 0, chunk.length, this.length);
    this.length += chunk.length;
  }
}

async function indexOf(tar: AsyncIterable<Uint8Array>, contents: Contents): Promise<Map<string, Node>> {
  const nodes = new Map<string, Node>([["", newDirectory(0o755, 0)]]);
  let names = 0;
  for await (const member of readTar(bounded(decompressed(tar), contents.longestTar))) {
    const name = cleanName(member.name);
    names += name.length + member.target.length;
    if (names > longestNames) throw refusal("the names of its files are too long");
    const node = await nodeOf(member, nodes, contents);
    if (node) put(nodes, name, node);
    if (nodes.size > mostEntries) throw refusal(`it has more than ${mostEntries} files`);
  }
  return nodes;
}

/** undefined for a type that no build can copy, such as a socket */
async function nodeOf(member: ReadMember, nodes: Map<string, Node>, contents: Contents): Promise<Node | undefined> {
  const { name, type, target, mode } = member;
  const facts = { mode, modifiedAt: Math.max(member.modifiedAt, 0) };
  const isDirectory = type === "directory" || (type === "file" && name.endsWith("/"));
  if (isDirectory) return newDirectory(facts.mode, facts.modifiedAt);
  if (type === "symlink") {
    if (target === "" || target.length > longestPath) throw refusal(`"${shown(name)}" links to nothing`);
    return { type, ...facts, target };
  }
  if (type === "link") {
    const node = nodes.get(cleanName(target));
    if (node?.type !== "file") throw refusal(`"${shown(name)}" is a link to a file that is not there`);
    return { ...node };
  }
  if (type !== "file") return undefined;
  if (member.holes !== undefined) throw refusal(`"${shown(name)}" is a sparse file`);
  const hash = createHash("sha256");
  const start = contents.length;
  for await (const chunk of member.contents()) {
    hash.update(chunk);
    await contents.write(chunk);
  }
  return { type: "file", ...facts, start, size: contents.length - start, sha256: hash.digest("hex") };
}

/** puts an entry into its place and makes its parents; replaces an existing one, but a directory only by a directory */
function put(nodes: Map<string, Node>, path: string, node: Node): void {
  const there = nodes.get(path);
  if (there?.type === "directory") {
    if (node.type !== "directory") throw refusal(`"${shown(path)}" is there twice, and once as a directory`);
    there.mode = node.mode;
    there.modifiedAt = node.modifiedAt;
    return;
  }
  const above = parentOf(path);
  if (!nodes.has(above)) put(nodes, above, newDirectory(0o755, node.modifiedAt));
  const parent = nodes.get(above);
  if (parent?.type !== "directory") throw refusal(`"${shown(path)}" is below something that is no directory`);
  parent.children.add(posix.basename(path));
  nodes.set(path, node);
}

function newDirectory(mode: number, modifiedAt: number): Node & { type: "directory" } {
  return { type: "directory", mode, modifiedAt, children: new Set() };
}

async function* bounded(tar: AsyncIterable<Uint8Array>, longest: number): AsyncGenerator<Uint8Array> {
  let length = 0;
  for await (const chunk of tar) {
    length += chunk.length;
    if (length > longest) throw refusal(`its archive is larger than ${longest} bytes`);
    yield chunk;
  }
}

function cleanName(name: string): string {
  if (name.startsWith("/")) throw refusal(`"${shown(name)}" is an absolute path`);
  if (name.length > longestPath) throw refusal(`"${shown(name)}…" is too long for a path`);
  const names = name.split("/").filter((each) => each !== "" && each !== ".");
  if (names.includes("..")) throw refusal(`"${shown(name)}" has ".." in it`);
  return names.join("/");
}

function below(path: string, name: string): string {
  return path === "" || name === "" ? path + name : `${path}/${name}`;
}

function parentOf(path: string): string {
  const parent = posix.dirname(path);
  return parent === "." ? "" : parent;
}

function shown(name: string): string {
  return shownText(name.slice(0, 200));
}

function refusal(why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot take the build context: ${why}`, { cause });
}
