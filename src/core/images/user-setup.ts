/**
 * What the user of a session needs in a machine that has just booted from an image: the name that programs show, and the
 * directory where commands start. Machines of one image begin with the same files, so the first one is examined, and the
 * others get what it needed: as part of their boot, so that the runtime can do it in advance. A create waits for this. A
 * team chooses what is on its drives and where they are mounted, also over /etc or /home: a machine with drives is examined
 * by itself.
 */

import { userIds } from "../commands/user-ids.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { FileOwner, Files, Machine, MachineSetup } from "../ports/runtime.ts";
import { type NameChange, nameChanges } from "./shown-name.ts";

/** most images with users that are remembered */
const most = 100;

type SessionUser = Pick<Session, "user" | "cwd">;

/** What one machine of an image lacked. */
interface Needs {
  names: NameChange[];
  /** owner of the directory that is missing; undefined if it is there */
  directory: FileOwner | undefined;
}

export class UserSetup {
  /** by image content, user and directory, and what the image says about both */
  readonly #needs = new Map<string, Needs>();

  /** what each machine without drives needs; undefined if that is nothing, or is not known yet */
  known(image: ImageInfo, session: SessionUser): MachineSetup | undefined {
    const { key } = question(image, session);
    const needs = this.#needs.get(key);
    if (!needs || isNothing(needs)) return undefined;
    return { key, apply: (files) => files.together((kept) => meet(kept, session.cwd, needs)) };
  }

  /** for a machine that was booted without setup; `hasDrives`: whether it has other files than those of its image */
  async apply(
    machine: Machine,
    image: ImageInfo,
    session: SessionUser,
    { hasDrives }: { hasDrives: boolean },
  ): Promise<void> {
    const { key, isNamed, hasDirectory } = question(image, session);
    if (isNamed && hasDirectory) return;
    const known = hasDrives ? undefined : this.#needs.get(key);
    if (known && isNothing(known)) return;
    await machine.files().together(async (files) => {
      if (known) return meet(files, session.cwd, known);
      const names = isNamed ? [] : await nameChanges(files, session.user);
      await meet(files, session.cwd, { names, directory: undefined });
      // The user's ids are those of the name that is written by now.
      const directory = hasDirectory ? undefined : await lacking(files, machine, session);
      await meet(files, session.cwd, { names: [], directory });
      if (hasDrives) return;
      if (this.#needs.size >= most) this.#needs.clear();
      this.#needs.set(key, { names, directory });
    });
  }
}

/** what a machine is examined for */
function question(image: ImageInfo, { user, cwd }: SessionUser) {
  const isNamed = user === image.user || user === "root";
  const hasDirectory = isWithin(image, cwd);
  return { key: JSON.stringify([image.layers, user, cwd, isNamed, hasDirectory]), isNamed, hasDirectory };
}

function isNothing({ names, directory }: Needs): boolean {
  return names.length === 0 && !directory;
}

async function meet(files: Files, cwd: string, { names, directory }: Needs): Promise<void> {
  await Promise.all(names.map(({ path, content }) => files.write(path, content)));
  if (directory) await makeDirectory(files, cwd, directory);
}

/** whether an image is known to have a directory: its own, and every one above that */
function isWithin(image: ImageInfo, cwd: string): boolean {
  return `${image.cwd || ""}/`.startsWith(cwd === "/" ? cwd : `${cwd}/`);
}

/** the user's ids, unless the directory is there and belongs to the user */
async function lacking(files: Files, machine: Machine, { user, cwd }: SessionUser): Promise<FileOwner | undefined> {
  const { uid, gid } = await userIds(machine, user);
  const there = await files.stat(cwd).catch((error) => {
    if (!isSandkeepError(error, "not-found")) throw error;
  });
  const isReady = there?.type === "directory" && there.uid === uid && there.gid === gid;
  return isReady ? undefined : { uid, gid };
}

async function makeDirectory(files: Files, cwd: string, { uid, gid }: FileOwner): Promise<void> {
  await files.mkdir(cwd, { recursive: true });
  await files.chown(cwd, uid, gid);
}
