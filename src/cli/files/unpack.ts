/**
 * Unpacks a tar of a sandbox below a directory of this host. Programs in the sandbox chose its content, so nothing is
 * written outside: names may not lead up, no symlink is followed, and devices and special bits are left out.
 */

import { constants } from "node:fs";
import { chmod, link, lstat, mkdir, open, symlink, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { codeOf } from "../../base/error-code.ts";
import { byteString, bytesOf, shownText } from "../../base/tar/byte-string.ts";
import { type ReadMember, readTar } from "../../base/tar/reader.ts";
import { CliError } from "../errors.ts";
import { requireRoom, writeSparse } from "./sparse-file.ts";

/** returns how many members were left out, as they are neither files, directories nor links */
export async function unpack(tar: AsyncIterable<Uint8Array>, directory: string): Promise<number> {
  await mkdir(directory, { recursive: true });
  const root = byteString(directory);
  const modes = new Map<string, number>();
  let leftOut = 0;
  for await (const member of readTar(tar)) {
    const names = namesIn(member.name);
    const path = await placeOf(root, names);
    if (member.type === "directory") {
      if (names.length > 0) await makeDirectory(path);
      modes.set(path, member.mode & 0o777);
    } else if (names.length === 0) throw unsafe(member.name);
    else if (!(await write(member, path, root))) leftOut++;
  }
  // A directory that may not be written to would refuse its own files before.
  for (const [path, mode] of [...modes].reverse()) if (path !== root) await chmod(bytesOf(path), mode);
  return leftOut;
}

async function write(member: ReadMember, path: string, root: string): Promise<boolean> {
  const { type, target, mode, modifiedAt, holes } = member;
  if (holes !== undefined) return false;
  if (type === "symlink") {
    await removeFile(path);
    await symlink(bytesOf(target), bytesOf(path));
    return true;
  }
  if (type === "link") {
    const other = await placeOf(root, namesIn(target));
    await removeFile(path);
    await link(bytesOf(other), bytesOf(path));
    return true;
  }
  if (type !== "file") return false;
  await removeFile(path);
  await requireRoom(dirname(path), member);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  await using file = await open(bytesOf(path), flags, 0o600);
  await writeSparse(file, member.contents());
  await file.chmod(mode & 0o777);
  await file.utimes(modifiedAt / 1000, modifiedAt / 1000);
  return true;
}

/** the parts of a name, without those that mean the same directory */
function namesIn(name: string): string[] {
  const names = name.split("/").filter((part) => part !== "" && part !== ".");
  if (name.startsWith("/") || names.includes("..")) throw unsafe(name);
  return names;
}

/** the path of a member; the directories above it are made, and must be such */
async function placeOf(root: string, names: string[]): Promise<string> {
  let path = root;
  for (const name of names.slice(0, -1)) {
    path = join(path, name);
    await makeDirectory(path);
  }
  return join(path, ...names.slice(-1));
}

async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(bytesOf(path));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    if (!(await lstat(bytesOf(path))).isDirectory())
      throw new CliError(`Cannot unpack below "${shownText(path)}": it is not a directory`);
  }
}

async function removeFile(path: string): Promise<void> {
  await unlink(bytesOf(path)).catch((error) => {
    if (codeOf(error) === "EISDIR" || codeOf(error) === "EPERM")
      throw new CliError(`Cannot write "${shownText(path)}": a directory is there`);
    if (codeOf(error) !== "ENOENT") throw error;
  });
}

function unsafe(name: string): CliError {
  return new CliError(`Cannot unpack "${shownText(name)}": it is outside of the directory`);
}
