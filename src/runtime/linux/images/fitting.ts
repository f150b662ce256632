/**
 * The topmost layer of an imported image: everything that a sandbox needs and an image may lack. That is mount points,
 * our users beside the image's own, names and name servers, and sudo without a password where there is sudo.
 */

import type { ImageConventions } from "../../../core/model/conventions.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { hostname, hostsFile, resolvFile } from "./etc.ts";
import { type LayerWriter, plainUser } from "./layer-writer.ts";
import {
  keptVariables,
  plainUsers,
  sudoRules,
  type User,
  withPlainGroup,
  withPlainShadow,
  withPlainUsers,
} from "./users.ts";
import type { ImageView } from "./view.ts";

/** writes the layer; `view` is the image below it, `path` is its programs' PATH */
export async function writeFitting(
  writer: LayerWriter,
  view: ImageView,
  path: string,
  conventions: ImageConventions,
): Promise<void> {
  const users = plainUsers(conventions);
  const etc = await view.find("/etc");
  if (etc && etc.type !== "directory") {
    throw new SandkeepError("invalid", "Cannot import the image: its /etc is not a directory");
  }
  const directories = new Directories(writer, view);
  await directories.need("/", 0o755);
  for (const path of ["/dev", "/proc", "/sys", "/run", "/home", "/etc", "/var"]) {
    await directories.need(path, 0o755);
  }
  await directories.need("/root", 0o700);
  for (const path of ["/tmp", "/var/tmp"]) await directories.set(path, 0o1777);
  for (const path of [conventions.folder, conventions.cwd]) await directories.set(path, 0o755, plainUser);
  await directories.need("/workspace", 0o755, plainUser);
  for (const { home } of users) await directories.need(home, 0o755, plainUser);
  await writeNames(writer, view, users);
  if (await view.exists("/usr/bin/sudo", "/bin/sudo")) await writeSudo(writer, directories, path, users);
}

/** whether programs that are linked against glibc run in the image */
export function hasGlibc(view: ImageView): Promise<boolean> {
  const linker = process.arch === "arm64" ? "ld-linux-aarch64.so.1" : "ld-linux-x86-64.so.2";
  const triplet = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const folders = ["/lib64", "/lib", `/lib/${triplet}`].flatMap((folder) => [folder, `/usr${folder}`]);
  return view.exists(...folders.map((folder) => `${folder}/${linker}`));
}

async function writeNames(writer: LayerWriter, view: ImageView, users: User[]): Promise<void> {
  const shadow = await view.text("/etc/shadow");
  await writer.file("/etc/passwd", withPlainUsers((await view.text("/etc/passwd")) ?? "", users));
  await writer.file("/etc/group", withPlainGroup((await view.text("/etc/group")) ?? "", users));
  const found = await view.find("/etc/shadow");
  const owner = { uid: found?.uid ?? 0, gid: found?.gid ?? 0 };
  await writer.file("/etc/shadow", withPlainShadow(shadow ?? "", users), { mode: found?.mode ?? 0o600, owner });
  await writer.file("/etc/resolv.conf", resolvFile);
  await writer.file("/etc/hosts", hostsFile);
  await writer.file("/etc/hostname", `${hostname}\n`);
}

async function writeSudo(writer: LayerWriter, directories: Directories, path: string, users: User[]): Promise<void> {
  await directories.need("/etc/sudoers.d", 0o750);
  // The image's own PATH may hold anything; characters that could end the quotes are removed.
  const safePath = path.replaceAll(/[^A-Za-z0-9/:._+-]/g, "");
  const rules = ["Defaults !requiretty", keptVariables, `Defaults secure_path="${safePath}"`, ...sudoRules(users)];
  await writer.file("/etc/sudoers.d/sandkeep", rules.map((line) => `${line}\n`).join(""), { mode: 0o440 });
}

/** Directories of the topmost layer. In a merged directory its facts win, so they are copied from the image's own. */
class Directories {
  readonly #writer: LayerWriter;
  readonly #view: ImageView;

  constructor(writer: LayerWriter, view: ImageView) {
    this.#writer = writer;
    this.#view = view;
  }

  /** ensures a directory at this path: as in the image or, if that has none, with this mode and owner */
  async need(path: string, mode: number, owner = { uid: 0, gid: 0 }): Promise<void> {
    const there = path === "/" ? undefined : await this.#view.find(path);
    if (!there) await this.#writer.directory(path, { mode, owner });
    else if (there.type === "directory") await this.#writer.directory(path, { mode: there.mode, owner: there });
    // A link or file of the image stays, except where a mount point is needed.
    else if (mountPoints.has(path)) {
      await this.#writer.remove(path);
      await this.#writer.directory(path, { mode });
    }
  }

  /** as need, but sets this mode and owner even if the image has others */
  async set(path: string, mode: number, owner = { uid: 0, gid: 0 }): Promise<void> {
    const there = await this.#view.find(path);
    if (there && there.type !== "directory") return;
    await this.#writer.directory(path, { mode, owner });
  }
}

const mountPoints = new Set(["/dev", "/proc", "/sys"]);
