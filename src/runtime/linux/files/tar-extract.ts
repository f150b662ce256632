/**
 * Unpacks a tar stream into a sandbox or a layer over one connection, without waiting for the answer to each member.
 *
 * An archive is not trusted. Every member stays below the directory it is unpacked in: none is absolute, has ".." in
 * its name, or lies below a symlink that the archive itself made. (The guest's process sees only the sandbox, so no
 * member can leave that.) Members unpacked before a bad one stay.
 */

import { posix } from "node:path";
import { byteString, bytesOf } from "../../../base/tar/byte-string.ts";
import { TarError, type TarType } from "../../../base/tar/header.ts";
import { type ReadMember, readTar } from "../../../base/tar/reader.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import type { FileOwner } from "../../../core/ports/runtime.ts";
import { Answers } from "./answers.ts";
import { decompressed } from "./decompress.ts";
import type { Entry } from "./file-entry.ts";
import type { FileSession } from "./file-session.ts";
import { cleanName, kindOf, MadeNames, ownerOf, parentOf, refusal, timeOf } from "./tar-member.ts";
import type { WriteRequest } from "./write-request.ts";

export interface ExtractOptions {
  /**
   * A layer, on a connection of FILES_AT: owners and extended attributes are restored, character devices 0/0 are
   * whiteouts. Otherwise everything belongs to the user of the guest's process.
   */
  layer?: boolean;
  /** with `layer`: members named ".wh.…" are whiteouts, as in the layers of OCI images */
  oci?: boolean;
  /** with `oci`: the directory holds the layers below already, so whiteouts delete their files */
  onto?: boolean;
  /** called with the bytes of a sparse file's holes, which are written as zeros; without it such files are refused */
  takeHoles?: (count: number) => void;
  /** with `layer`: the most members it may have */
  mostMembers?: number;
  /** on a connection of root: the owner of everything that is made, parent directories included */
  owner?: FileOwner;
  /** on a connection of root: everything gets its owner from the archive */
  archivedOwners?: boolean;
  /** without `layer`: extended attributes that are valid anywhere are restored as well */
  attributes?: boolean;
  /** permission bits of everything; default what the archive says */
  mode?: number;
  /** a new name for the archive's only file */
  as?: string;
  /** the tar is not compressed: a compressed tar in it is no tar */
  isPlain?: boolean;
  /** whether to skip a member, by its path below the directory, a byte string */
  leaveOut?: (path: string) => boolean;
}

/** unpacks a tar (plain, gzip or zstd) below a directory; makes missing directories, including itself */
export async function extractTar(
  session: FileSession,
  directory: string,
  tar: AsyncIterable<Uint8Array>,
  options: ExtractOptions = {},
): Promise<void> {
  const target = new Target(session, directory, options);
  await target.begin();
  try {
    for await (const member of readTar(options.isPlain ? tar : decompressed(tar))) await target.take(member);
    await target.finish();
  } catch (error) {
    throw error instanceof TarError ? notTar(error) : error;
  } finally {
    await target.settled();
  }
}

/** most requests pending at a time */
const inFlight = 64;
/** most characters of names of an archive's directories and symlinks to remember */
const longestMemory = 32 << 20;

/** The directory that an archive is unpacked in, and the facts to remember about earlier members. Names are byte strings. */
class Target {
  readonly #session: FileSession;
  readonly #directory: string;
  readonly #layer: boolean;
  readonly #oci: boolean;
  /** the names that the archive itself has made, if it lies on other files */
  readonly #made: MadeNames | undefined;
  /** the names of extended attributes that are restored */
  readonly #allowed: RegExp | undefined;
  readonly #mostMembers: number;
  #members = 0;
  readonly #forOwner: FileOwner | undefined;
  readonly #archivedOwners: boolean;
  readonly #mode: number | undefined;
  readonly #as: string | undefined;
  readonly #leaveOut: ExtractOptions["leaveOut"];
  readonly #takeHoles: ExtractOptions["takeHoles"];
  readonly #answers = new Answers(inFlight);
  /** names of the archive's symlinks */
  readonly #symlinks = new Set<string>();
  readonly #directories: MadeDirectory[] = [];
  /** directories that exist, for archives in which each one needs an owner */
  readonly #ways = new Set(["/"]);
  #memory = 0;
  #parent = "";

  constructor(session: FileSession, directory: string, options: ExtractOptions) {
    this.#session = session;
    this.#directory = byteString(directory);
    this.#layer = options.layer ?? false;
    this.#oci = this.#layer && (options.oci ?? false);
    this.#made = this.#oci && options.onto ? new MadeNames() : undefined;
    // Other tools' layers say by their names what is hidden; attributes of an overlay in them are no such thing.
    this.#allowed = this.#layer && !this.#oci ? layerAttribute : plainAttribute;
    if (!this.#layer && !options.attributes) this.#allowed = undefined;
    this.#mostMembers = options.mostMembers ?? Number.POSITIVE_INFINITY;
    this.#forOwner = options.owner;
    this.#archivedOwners = this.#layer || (options.archivedOwners ?? false);
    this.#mode = options.mode;
    this.#as = options.as === undefined ? undefined : byteString(options.as);
    this.#leaveOut = options.leaveOut;
    this.#takeHoles = options.takeHoles;
  }

  /** makes the directory itself */
  async begin(): Promise<void> {
    await this.#makeWay(this.#directory);
    await this.#answers.all();
  }

  async take(member: ReadMember): Promise<void> {
    const kind = kindOf(member);
    if (++this.#members > this.#mostMembers) {
      throw new SandkeepError("limit", `Cannot extract the archive: it has more than ${this.#mostMembers} members`);
    }
    const name = this.#as ?? cleanName(member.name, member.name);
    this.#refuseBelowSymlink(name, member.name);
    if (this.#leaveOut?.(name)) return;
    if (this.#oci && posix.basename(name).startsWith(".wh.")) return this.#ociWhiteout(name);
    await this.#layOver(kind, name);
    if (kind === "file") await this.#file(name, member);
    else await this.#other(kind, name, member);
  }

  /** waits for every answer, then sets modes and times of directories, which writing their members has changed */
  async finish(): Promise<void> {
    await this.#answers.all();
    for (const { path, facts, made } of this.#directories.reverse()) {
      if (!this.#layer && !(await made)) continue;
      await this.#facts(path, facts, true);
    }
    await this.#answers.all();
  }

  /** resolves once no request is pending, whether they succeeded or failed */
  async settled(): Promise<void> {
    await this.#answers.all().catch(() => undefined);
  }

  async #file(name: string, member: ReadMember): Promise<void> {
    if (name === "") throw refusal(member.name, "it has no name");
    if (member.holes !== undefined) {
      if (!this.#takeHoles) throw refusal(member.name, "sparse files are not supported");
      this.#takeHoles(member.holes);
    }
    const path = this.#path(name);
    this.#symlinks.delete(name);
    if (this.#forOwner) await this.#makeWay(this.#whole(parentOf(name)));
    const { sent, done } = this.#session.beginWrite(path, member.contents(), this.#writeRequest(member));
    try {
      if (!(await sent)) await done;
    } catch (error) {
      // In a layer, part of a file stays if the archive ends inside this member, or the disk is full.
      const begun = !isSandkeepError(error) || error.code === "limit";
      if (begun && this.#layer) await this.#session.remove(path, { force: true }).catch(() => undefined);
      throw error;
    }
    await this.#answers.add(done);
    await this.#attributes(path, member);
  }

  async #other(kind: TarType, name: string, member: ReadMember): Promise<void> {
    if (kind === "directory") return this.#makeDirectory(name, member);
    if (name === "") throw refusal(member.name, "it has no name");
    const path = this.#path(name);
    if (kind === "link") return this.#link(name, member);
    const make = this.#maker(kind, path, member);
    await this.#clear(name);
    if (kind === "symlink") this.#rememberSymlink(name);
    await this.#answers.add(make());
    if (kind === "symlink") await this.#own(path, member);
    if (kind === "fifo") await this.#facts(path, member, false);
  }

  #maker(kind: TarType, path: Buffer, member: ReadMember): () => Promise<void> {
    if (kind === "symlink") return () => this.#session.symlink(bytesOf(member.target), path);
    if (kind === "fifo") return () => this.#session.fifo(path, this.#modeOf(member));
    const isWhiteout = kind === "character-device" && member.major === 0 && member.minor === 0;
    // On top of existing layers, #layOver() has already removed the entry of that name.
    if (this.#made && isWhiteout) return async () => undefined;
    if (this.#layer && isWhiteout) return () => this.#session.whiteout(path);
    throw refusal(member.name, "device nodes are not allowed");
  }

  async #makeDirectory(name: string, member: ReadMember): Promise<void> {
    // A directory over one of the archive's own symlinks would be the target of that symlink.
    if (this.#symlinks.has(name)) throw refusal(member.name, "the archive made a symlink of that name");
    // The target itself belongs to the caller; in a layer it is the root.
    if (name === "" && !this.#layer) return;
    const path = this.#path(name);
    this.#remember(name);
    if (this.#forOwner) await this.#makeWay(this.#whole(parentOf(name)));
    const made = this.#session.mkdir(path, { recursive: true, mode: this.#modeOf(member) | 0o700 });
    const { uid, gid, mode, modifiedAt } = member;
    this.#directories.push({ path, facts: { name: member.name, uid, gid, mode, modifiedAt }, made });
    await this.#answers.add(made);
    await this.#attributes(path, member);
  }

  async #link(name: string, member: ReadMember): Promise<void> {
    const from = cleanName(member.target, member.name);
    if (from === "") throw refusal(member.name, "it links to nothing");
    this.#refuseBelowSymlink(from, member.name);
    if (from === name) return;
    await this.#clear(name);
    // A link to a symlink is another name of that symlink.
    if (this.#symlinks.has(from)) this.#rememberSymlink(name);
    await this.#answers.add(this.#session.link(this.#path(from), this.#path(name)));
  }

  /** removes an entry of the layers below that has this name and cannot be merged with the member */
  async #layOver(kind: TarType, name: string): Promise<void> {
    const made = this.#made;
    if (!made || name === "" || made.has(name)) return;
    this.#remember(name);
    made.add(name);
    const path = this.#path(name);
    if (kind !== "directory") return this.#answers.add(this.#session.remove(path, { recursive: true, force: true }));
    const there = await this.#below(path);
    if (there && there.type !== "directory") await this.#session.remove(path, { force: true });
  }

  /** the entry at a path, once all earlier requests are done */
  async #below(path: Buffer): Promise<Entry | undefined> {
    await this.#answers.all();
    return this.#session.stat(path, { follow: false }).catch((error) => {
      if (isSandkeepError(error, "not-found")) return undefined;
      throw error;
    });
  }

  /** deletes the files of the layers below at and below a path; those of the archive itself stay */
  async #deleteBelow(made: MadeNames, name: string): Promise<void> {
    const path = this.#path(name);
    const there = await this.#below(path);
    if (!there) return;
    if (!made.has(name)) return this.#session.remove(path, { recursive: true, force: true });
    if (there.type !== "directory") return;
    const names: string[] = [];
    for await (const entry of this.#session.list(path, { bytes: true })) names.push(entry.path);
    for (const child of names) await this.#deleteBelow(made, posix.join(name, child));
  }

  async #ociWhiteout(name: string): Promise<void> {
    const parent = parentOf(name);
    const hidden = posix.basename(name).slice(".wh.".length);
    if (this.#made) {
      const isPlain = hidden !== "" && hidden !== "." && hidden !== ".." && !hidden.startsWith(".wh.");
      if (hidden === ".wh..opq") {
        this.#made.add(parent);
        await this.#deleteBelow(this.#made, parent);
      } else if (isPlain) await this.#deleteBelow(this.#made, posix.join(parent, hidden));
      return;
    }
    await this.#makeParent(name);
    if (hidden === ".wh..opq") {
      await this.#answers.add(
        this.#session.setAttribute(this.#path(parent), "trusted.overlay.opaque", Buffer.from("y")),
      );
    } else if (hidden !== "" && hidden !== "." && hidden !== ".." && !hidden.startsWith(".wh.")) {
      await this.#answers.add(this.#session.whiteout(this.#path(posix.join(parent, hidden))));
    }
  }

  /** prepares the path of a member that is neither file nor directory: makes its parents and removes an old entry */
  async #clear(name: string): Promise<void> {
    await this.#makeParent(name);
    this.#symlinks.delete(name);
    await this.#answers.add(this.#session.remove(this.#path(name), { force: true }));
  }

  async #makeParent(name: string): Promise<void> {
    const parent = parentOf(name);
    if (parent === this.#parent) return;
    this.#parent = parent;
    await this.#makeWay(this.#whole(parent));
  }

  /** makes a directory and its parents; one by one if they need an owner, to know which are new */
  async #makeWay(path: string): Promise<void> {
    const owner = this.#forOwner;
    if (!owner) return this.#answers.add(this.#session.mkdir(bytesOf(path), { recursive: true }));
    if (this.#ways.has(path)) return;
    await this.#makeWay(posix.dirname(path));
    this.#remember(path);
    this.#ways.add(path);
    const made = this.#session.mkdir(bytesOf(path), { recursive: true });
    const give = () => this.#session.chown(bytesOf(path), owner.uid, owner.gid, { follow: false });
    await this.#answers.add(made.then((isNew) => (isNew ? give() : undefined)));
  }

  #writeRequest(member: ReadMember): WriteRequest {
    const request: WriteRequest = { mode: this.#modeOf(member), parents: true, replace: true, exactMode: true };
    const owner = this.#ownerOf(member);
    if (owner) request.owner = owner;
    request.modifiedAt = timeOf(member);
    return request;
  }

  async #facts(path: Buffer, member: Facts, directory: boolean): Promise<void> {
    await this.#own(path, member);
    const mode = this.#modeOf(member);
    // mkdir has set these bits; this sets the others, and removes bits that only the unpacking needed.
    const settled = directory && !this.#layer && mode === ((mode | 0o700) & 0o777);
    if (!settled) await this.#answers.add(this.#session.chmod(path, mode));
    await this.#answers.add(this.#session.utime(path, timeOf(member), { follow: false }));
  }

  /** before the mode, because a change of owner clears some of its bits */
  async #own(path: Buffer, member: Facts): Promise<void> {
    const owner = this.#ownerOf(member);
    if (owner) await this.#answers.add(this.#session.chown(path, owner.uid, owner.gid, { follow: false }));
  }

  /** undefined where everything belongs to the connection's own user */
  #ownerOf(member: Facts): FileOwner | undefined {
    return this.#archivedOwners ? ownerOf(member) : this.#forOwner;
  }

  #modeOf({ mode }: Facts): number {
    return this.#mode ?? mode;
  }

  async #attributes(path: Buffer, { attributes }: ReadMember): Promise<void> {
    if (!this.#allowed || attributes.length === 0) return;
    const allowed = this.#allowed;
    for (const { name, value } of attributes.filter(({ name }) => allowed.test(name))) {
      await this.#answers.add(this.#session.setAttribute(path, bytesOf(name), value));
    }
  }

  /** the whole path, as a byte string */
  #whole(name: string): string {
    return posix.join(this.#directory, name);
  }

  #path(name: string): Buffer {
    return bytesOf(this.#whole(name));
  }

  #rememberSymlink(name: string): void {
    this.#remember(name);
    this.#symlinks.add(name);
  }

  #remember(name: string): void {
    this.#memory += name.length + 100;
    if (this.#memory > longestMemory) {
      throw new SandkeepError("limit", "Cannot extract the archive: it has too many directories and symlinks");
    }
  }

  #refuseBelowSymlink(name: string, member: string): void {
    if (this.#symlinks.size === 0) return;
    for (let at = name.indexOf("/"); at > 0; at = name.indexOf("/", at + 1)) {
      if (this.#symlinks.has(name.slice(0, at))) throw refusal(member, "it is below a symlink of the archive");
    }
  }
}

/** what a member says of its owner, mode and time */
type Facts = Pick<ReadMember, "name" | "uid" | "gid" | "mode" | "modifiedAt">;

interface MadeDirectory {
  path: Buffer;
  facts: Facts;
  /** whether this created it */
  made: Promise<boolean>;
}

// Without the overlay's other attributes: they are valid only on the file system that they were made on.
const layerAttribute = /^(user\..+|security\.capability|trusted\.overlay\.(opaque|redirect))$/;

/** Attributes of files outside of an overlay. */
const plainAttribute = /^(user\..+|security\.capability)$/;

function notTar(cause: TarError): SandkeepError {
  return new SandkeepError("invalid", `Cannot extract the archive: it is no whole tar file (${messageOf(cause)})`, {
    cause,
  });
}
