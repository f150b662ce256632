/**
 * What the user of a session needs in a machine that has just booted from an image: the name that programs show, and the
 * directory where commands start. Machines of one image begin with the same files, so the first one is examined, and the
 * others get what it needed. A create waits for this. A team chooses what is on its drives and where they are mounted, also
 * over /etc or /home: a machine with drives is examined by itself.
 */

import { userIds } from "../commands/user-ids.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { FileOwner, Files, Machine } from "../ports/runtime.ts";
import { type NameChange, nameChanges } from "./shown-name.ts";

/** most images with users that are remembered */
const most = 100;

/** What one machine of an image lacked. */
interface Needs {
  names: NameChange[];
  /** owner of the directory that is missing; undefined if it is there */
  directory: FileOwner | undefined;
}

export class UserSetup {
  /** by image content, user and directory, and what the image says about both */
  readonly #needs = new Map<string, Needs>();

  /** `hasDrives`: whether the machine has other files than those of its image */
  async apply(
    machine: Machine,
    image: ImageInfo,
    session: Pick<Session, "user" | "cwd">,
    { hasDrives }: { hasDrives: boolean },
  ): Promise<void> {
    const { user, cwd } = session;
    const isNamed = user === image.user || user === "root";
    const hasDirectory = isWithin(image, cwd);
    if (isNamed && hasDirectory) return;
    const key = JSON.stringify([image.layers, user, cwd, isNamed, hasDirectory]);
    await machine.files().together(async (files) => {
      const known = hasDrives ? undefined : this.#needs.get(key);
      const names = known?.names ?? (isNamed ? [] : await nameChanges(files, user));
      await Promise.all(names.map(({ path, content }) => files.write(path, content)));
      const directory = known ? known.directory : hasDirectory ? undefined : await lacking(files, machine, session);
      if (directory) await makeDirectory(files, cwd, directory);
      if (hasDrives) return;
      if (this.#needs.size >= most) this.#needs.clear();
      this.#needs.set(key, { names, directory });
    });
  }
}

/** whether an image is known to have a directory: its own, and every one above that */
function isWithin(image: ImageInfo, cwd: string): boolean {
  return `${image.cwd || ""}/`.startsWith(cwd === "/" ? cwd : `${cwd}/`);
}

/** the user's ids, unless the directory is there and belongs to the user */
async function lacking(
  files: Files,
  machine: Machine,
  { user, cwd }: Pick<Session, "user" | "cwd">,
): Promise<FileOwner | undefined> {
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
