/**
 * The image "host": a read-only view of the host's own userland that needs no download. Its layers, topmost first:
 *
 *   host        everything we write: /etc, homes, mount points, and a skeleton of /usr
 *   host-etc    what it takes from the host's own /etc, see host-etc.ts; in the topmost layer if the store cannot share
 *               layers between machines
 *   node        see node-runtime.ts; the topmost layer if the store cannot share layers between machines
 *   host-usr    the host's /usr itself
 *   host-dpkg   the host's /var/lib/dpkg itself, where there is one
 *
 * The directories of the host are lower layers as they are, so their names would show at the root. The skeleton puts
 * them where they belong: its /usr/bin is a moved directory (an overlay redirect) that shows /bin of the layers below,
 * which is the host's /usr/bin. It hides every name at their top. Only directories named here are visible anywhere, so
 * none shows by omission: not /usr/local, not /usr/src, and nothing outside of /usr. Files that are closed to other
 * users of the host are hidden too: see host-masks.ts. Writing copies up, as in any image; the host's files never
 * change.
 */

import { createHash } from "node:crypto";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { hostRootsFile } from "../../../core/images/trust.ts";
import type { ImageConventions } from "../../../core/model/conventions.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { withBase } from "../layers/bases.ts";
import type { Claim } from "../layers/claims.ts";
import type { LayerStore } from "../layers/layers.ts";
import { etcFiles, etcVersion, parseOsRelease, userBashrc, userProfile } from "./etc.ts";
import {
  digestOf,
  type HostEtcEntry,
  hostEtc,
  sharedEtcFolder,
  sharedEtcLayer,
  withRoots,
  writeHostEtc,
} from "./host-etc.ts";
import { shownInDpkg, shownInUsr } from "./host-view.ts";
import { hostImage, type ImageRecord, type ImageStore } from "./images.ts";
import { LayerWriter, plainUser } from "./layer-writer.ts";
import {
  type NodeRuntime,
  nodeFolder,
  nodeLayer,
  nodeLayerId,
  nodePrograms,
  ownNode,
  sharedNodeFolder,
  sharedNodeLayer,
  writeWay,
} from "./node-runtime.ts";
import { ownPrograms } from "./programs.ts";
import { plainUsers } from "./users.ts";

export interface HostImageOptions {
  conventions: ImageConventions;
  /** the host's root directory; default "/" */
  root?: string;
  node?: NodeRuntime;
  /** PEMs that it trusts besides the host's own list */
  roots?: readonly string[];
  /** called with a sentence before each step that takes seconds */
  progress?: (sentence: string) => void;
}

/** the image of this host's current state: the one in the store if nothing has changed, else a new one */
export async function ensureHostImage(
  layers: LayerStore,
  images: ImageStore,
  options: HostImageOptions,
): Promise<ImageRecord> {
  const { conventions, root = "/", node = ownNode(), roots = [] } = options;
  const host = await readHost({ conventions, root, node, roots, isShared: layers.canShare });
  const there = await images.get(hostImage);
  if (there?.fingerprint === host.fingerprint && (await isComplete(layers, there))) {
    return withBase({ layers, images }, there);
  }
  options.progress?.("Making the default image from this host's /usr");
  const claim = await layers.claim();
  try {
    const chain = await makeLayers(layers, claim, host, node);
    const image = await images.put({
      name: hostImage,
      layers: chain,
      env: { PATH: host.path, LANG: "C.UTF-8" },
      user: conventions.users[0].name,
      cwd: conventions.cwd,
      createdAt: Date.now(),
      fingerprint: host.fingerprint,
      ...(roots.length > 0 && { roots: roots.join("") }),
    });
    return await withBase({ layers, images }, image);
  } finally {
    await claim.release();
  }
}

/** directories of /usr that are links at the root of a merged-usr system */
const linked = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** files of dpkg's database that are copied */
const dpkgCopied = ["status", "diversions"];
/** names that dpkg makes at the top of its database while it works, perhaps after the image is made */
const dpkgPassing = [
  ...["tmp.ci", "updates", "parts", "reassemble.deb", "lock", "lock-frontend", "methlock"],
  ...["arch", "available", "diversions", "statoverride", "status"].flatMap((name) => [`${name}-new`, `${name}-old`]),
];

/** The parts of the host that go into the image, read before anything is made. */
interface Host {
  conventions: ImageConventions;
  root: string;
  path: string;
  /** visible names in /usr */
  usr: string[];
  /** names at the top of the lower layers */
  hidden: string[];
  dpkg: boolean;
  /** names of Python's library directories in /usr/lib, such as "python3.13" */
  pythons: string[];
  etc: HostEtcEntry[];
  roots: readonly string[];
  /** whether Node and the entries of `etc` are in lower layers that all machines share */
  isShared: boolean;
  own: ReturnType<typeof etcFiles>;
  fingerprint: string;
}

async function readHost({
  conventions,
  root,
  node,
  roots,
  isShared,
}: Pick<Host, "conventions" | "root" | "roots" | "isShared"> & { node: NodeRuntime }): Promise<Host> {
  await checkMerged(root);
  const usrNames = await directories(join(root, "usr"));
  const dpkgNames = await readdir(join(root, "var/lib/dpkg")).catch((): string[] => []);
  const dpkg = dpkgNames.includes("status");
  const release = await readFile(join(root, "usr/lib/os-release"), "utf8").catch(() => "");
  const path = [`${conventions.folder}/bin`, `${nodeFolder(node, conventions)}/bin`, ...standardPath].join(":");
  const host = {
    conventions,
    root,
    path,
    usr: shownInUsr.filter((name) => usrNames.includes(name)),
    hidden: [
      ...new Set([
        ...(await readdir(join(root, "usr"))),
        ...(dpkg ? [...dpkgNames, ...dpkgPassing] : []),
        ...(isShared ? [sharedNodeFolder.slice(1), sharedEtcFolder.slice(1)] : []),
      ]),
    ].sort(),
    dpkg,
    pythons: (await directories(join(root, "usr/lib"))).filter((name) => /^python3\.\d+$/.test(name)).sort(),
    etc: withRoots(await hostEtc(root), roots),
    roots,
    isShared,
    own: etcFiles(path, parseOsRelease(release), conventions),
  };
  return { ...host, fingerprint: await fingerprintOf(host, node) };
}

const standardPath = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

async function checkMerged(root: string): Promise<void> {
  for (const name of ["bin", "lib", "sbin"]) {
    const target = await readlink(join(root, name)).catch(() => "");
    if (target.replace(/^\//, "") === `usr/${name}`) continue;
    throw new SandkeepError(
      "unsupported",
      `Cannot make the image "${hostImage}": /${name} of this host is not a link to usr/${name}; import an image instead`,
    );
  }
}

async function fingerprintOf(host: Omit<Host, "fingerprint">, node: NodeRuntime): Promise<string> {
  const hash = createHash("sha256");
  const dpkgStatus = host.dpkg ? await lstat(join(host.root, "var/lib/dpkg/status")) : undefined;
  const programs = ownPrograms(host.conventions);
  hash.update(JSON.stringify([etcVersion, layoutVersion, nodeLayerId(node), host.root, host.path, programs]));
  hash.update(host.roots.join());
  hash.update(JSON.stringify([host.usr, host.hidden, host.pythons, host.own, dpkgStatus?.size, dpkgStatus?.mtimeMs]));
  hash.update(digestOf(host.etc));
  return hash.digest("hex").slice(0, 32);
}

/** raise this when the files outside of /etc change */
const layoutVersion = 4;

async function makeLayers(layers: LayerStore, claim: Claim, host: Host, node: NodeRuntime): Promise<string[]> {
  const id = `host-${host.fingerprint}`;
  await claim.add(id);
  const own =
    (await layers.get(id)) ??
    (await layers.create(claim, async (files) => {
      await writeHost(new LayerWriter(files), host, node);
      return id;
    }));
  const usr = await layers.addPath(claim, pathId("host-usr", host.root), join(host.root, "usr"));
  const chain = host.isShared
    ? [
        own.id,
        (await sharedEtcLayer(layers, claim, host.etc)).id,
        (await sharedNodeLayer(layers, claim, node)).id,
        usr.id,
      ]
    : [(await nodeLayer({ layers, claim, conventions: host.conventions }, node)).id, own.id, usr.id];
  if (!host.dpkg) return chain;
  const dpkg = await layers.addPath(claim, pathId("host-dpkg", host.root), join(host.root, "var/lib/dpkg"));
  return [...chain, dpkg.id];
}

/** the id of a directory of the host; constant for the real root, different for other roots in tests */
function pathId(name: string, root: string): string {
  return root === "/" ? name : `${name}-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`;
}

async function writeHost(writer: LayerWriter, host: Host, node: NodeRuntime): Promise<void> {
  await writeUsr(writer, host, node);
  if (host.isShared) await writeNode(writer, host.conventions, node);
  await writePython(writer, host);
  await writePrograms(writer, host);
  await writeEtc(writer, host);
  await writeRest(writer, host.conventions);
  if (host.dpkg) await writeDpkg(writer, host);
  await hideTop(writer, host);
}

async function writeUsr(writer: LayerWriter, host: Host, node: NodeRuntime): Promise<void> {
  for (const name of host.usr) {
    await writer.directory(`/usr/${name}`);
    await writer.redirect(`/usr/${name}`, `/${name}`);
  }
  for (const name of linked.filter((name) => host.usr.includes(name))) await writer.symlink(`usr/${name}`, `/${name}`);
  // Owned by the plain user, so that `pip install` and the like need no sudo.
  for (const name of ["", "/bin", "/sbin", "/lib", "/share", "/include", "/etc", "/src"]) {
    await writer.directory(`/usr/local${name}`, { owner: plainUser });
  }
  for (const name of nodePrograms) {
    await writer.symlink(`${nodeFolder(node, host.conventions)}/bin/${name}`, `/usr/local/bin/${name}`);
  }
  await writer.directory("/usr/src");
  if (host.roots.length > 0) await writer.file(hostRootsFile, host.roots.join(""));
}

async function writeNode(writer: LayerWriter, conventions: ImageConventions, node: NodeRuntime): Promise<void> {
  const folder = nodeFolder(node, conventions);
  await writeWay(writer, conventions);
  await writer.directory(folder, { owner: plainUser });
  await writer.redirect(folder, sharedNodeFolder);
}

/** `python`, and a pip that installs for everyone: it need not keep the distribution's packages apart */
async function writePython(writer: LayerWriter, host: Host): Promise<void> {
  for (const name of host.pythons) {
    const marker = `usr/lib/${name}/EXTERNALLY-MANAGED`;
    if (await exists(join(host.root, marker))) await writer.whiteout(`/${marker}`, { parents: true });
    for (const part of [name, `${name}/dist-packages`]) {
      await writer.directory(`/usr/local/lib/${part}`, { owner: plainUser });
    }
  }
  await writer.symlink("/usr/bin/python3", "/usr/local/bin/python");
  for (const [name, target] of Object.entries({ python3: "python3", python: "python3", pip3: "pip3", pip: "pip3" })) {
    await writer.symlink(`/usr/bin/${target}`, `${host.conventions.folder}/runtimes/python/bin/${name}`);
  }
}

/** programs known from other distributions that call the ones of this distribution */
async function writePrograms(writer: LayerWriter, host: Host): Promise<void> {
  for (const { path, text, needs } of ownPrograms(host.conventions)) {
    if (needs === undefined || (needs === "dpkg" && host.dpkg)) {
      await writer.file(path, text, { mode: 0o755, owner: plainUser });
    }
  }
}

async function writeEtc(writer: LayerWriter, host: Host): Promise<void> {
  await writer.directory("/etc");
  if (host.isShared) await writer.redirect("/etc", sharedEtcFolder);
  else await writeHostEtc(writer, host.etc, "/etc");
  // After the host's files, so that ours win where both exist.
  for (const [path, { text, mode = 0o644, gid = 0 }] of Object.entries(host.own)) {
    await writer.file(`/etc/${path}`, text, { mode, owner: { uid: 0, gid } });
  }
  await writer.directory("/etc/sudoers.d", { mode: 0o750 });
  await writer.directory("/etc/profile.d");
  await writer.symlink("../usr/lib/os-release", "/etc/os-release");
  await writer.symlink("/usr/share/zoneinfo/Etc/UTC", "/etc/localtime");
  await writer.symlink("/proc/self/mounts", "/etc/mtab");
}

async function writeRest(writer: LayerWriter, conventions: ImageConventions): Promise<void> {
  for (const path of ["/dev", "/proc", "/sys", "/run", "/mnt", "/media", "/srv", "/opt", "/boot", "/home"]) {
    await writer.directory(path);
  }
  await writer.directory("/root", { mode: 0o700 });
  for (const path of ["/tmp", "/var/tmp"]) await writer.directory(path, { mode: 0o1777 });
  for (const path of ["cache", "lib", "log", "mail", "opt", "spool", "backups"]) await writer.directory(`/var/${path}`);
  await writer.directory("/var/local", { mode: 0o2775, owner: { uid: 0, gid: 50 } });
  await writer.symlink("/run", "/var/run");
  await writer.symlink("/run/lock", "/var/lock");
  for (const path of [conventions.folder, `${conventions.folder}/bin`])
    await writer.directory(path, { owner: plainUser });
  // Agents' frameworks work in /workspace, and their own images have it.
  for (const path of [conventions.cwd, "/workspace"]) await writer.directory(path, { owner: plainUser });
  await writeHomes(writer, conventions);
}

async function writeHomes(writer: LayerWriter, conventions: ImageConventions): Promise<void> {
  const homes = plainUsers(conventions).map((user) => ({ home: user.home, owner: plainUser }));
  for (const { home, owner } of [...homes, { home: "/root", owner: { uid: 0, gid: 0 } }]) {
    if (home !== "/root") await writer.directory(home, { owner });
    await writer.file(`${home}/.bashrc`, userBashrc, { owner });
    await writer.file(`${home}/.profile`, userProfile, { owner });
  }
}

/** dpkg and apt see the host's packages as installed, and can install more in the sandbox */
async function writeDpkg(writer: LayerWriter, host: Host): Promise<void> {
  const from = join(host.root, "var/lib/dpkg");
  for (const name of shownInDpkg) {
    await writer.directory(`/var/lib/dpkg/${name}`);
    await writer.redirect(`/var/lib/dpkg/${name}`, `/${name}`);
  }
  for (const name of ["updates", "parts"]) await writer.directory(`/var/lib/dpkg/${name}`);
  for (const name of dpkgCopied) {
    await writer.file(`/var/lib/dpkg/${name}`, await readFile(join(from, name)).catch(() => ""));
  }
  // The host's overrides name its own users, and dpkg refuses to work without these users.
  for (const name of ["statoverride", "available"]) await writer.file(`/var/lib/dpkg/${name}`, "");
  for (const path of ["/var/lib/apt/lists/partial", "/var/cache/apt/archives/partial", "/var/log/apt"]) {
    await writer.directory(path);
  }
  await writer.directory("/var/cache/debconf");
}

/** hides the names at the top of the lower layers, and their content below names that are ours */
async function hideTop(writer: LayerWriter, host: Host): Promise<void> {
  const directories = [...ownDirectories, host.conventions.folder, "/workspace"];
  const shown = host.isShared ? ["/etc"] : [];
  for (const path of directories.filter((path) => !shown.includes(path))) await writer.opaque(path);
  const ours = new Set([
    ...directories.map((path) => path.slice(1)),
    ...linked.filter((name) => host.usr.includes(name)),
  ]);
  for (const name of host.hidden.filter((name) => !ours.has(name))) await writer.whiteout(`/${name}`);
}

const ownDirectories = [
  "/boot",
  "/dev",
  "/etc",
  "/home",
  "/media",
  "/mnt",
  "/opt",
  "/proc",
  "/root",
  "/run",
  "/srv",
  "/sys",
  "/tmp",
  "/usr",
  "/var",
];

async function isComplete(layers: LayerStore, image: ImageRecord): Promise<boolean> {
  return layers.lowerDirs(image.layers).then(
    () => true,
    () => false,
  );
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

async function directories(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}
