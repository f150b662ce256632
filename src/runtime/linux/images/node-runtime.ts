/**
 * The layer with our own Node, and beside it npm, pnpm, and yarn by way of corepack, which fetches the release that a
 * project names. It is made once for each version, and lies on top of every imported image whose C library can run it.
 * In the default image it lies below, where all machines share it.
 */

import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { dirname, join } from "node:path";
import type { ImageConventions } from "../../../core/model/conventions.ts";
import type { Claim } from "../layers/claims.ts";
import type { LayerInfo } from "../layers/layer-record.ts";
import type { LayerStore } from "../layers/layers.ts";
import { LayerWriter, plainUser } from "./layer-writer.ts";
import { copyTree } from "./tree-copy.ts";
import { TreeWriter } from "./tree-writer.ts";

/** Paths of the runtime's parts on the host. */
export interface NodeRuntime {
  /** the node program */
  program: string;
  version: string;
  packages: NodePackage[];
}

/** A package that is installed beside Node. */
interface NodePackage {
  name: string;
  version: string;
  /** its directory on the host */
  folder: string;
  /** paths of its programs inside it, by name */
  programs: Record<string, string>;
}

const installed: Record<string, Record<string, string>> = {
  npm: { npm: "bin/npm-cli.js", npx: "bin/npx-cli.js" },
  pnpm: { pnpm: "bin/pnpm.cjs", pnpx: "bin/pnpx.cjs" },
  corepack: { corepack: "dist/corepack.js", yarn: "dist/yarn.js", yarnpkg: "dist/yarnpkg.js" },
};

/** names of all programs in the layer */
export const nodePrograms = ["node", ...Object.values(installed).flatMap((programs) => Object.keys(programs))];

/** the Node that came with this package, or if there is none for this host, the one that runs this process */
export function ownNode(): NodeRuntime {
  const packages = Object.entries(installed).map(([name, programs]) => {
    const found = packageNamed(name);
    if (found === undefined) throw new Error(`Cannot find the package ${name}, which belongs to Sandkeep`);
    return { name, ...found, programs };
  });
  const node = packageNamed(`node-linux-${process.arch}`);
  return node === undefined
    ? { program: process.execPath, version: process.versions.node, packages }
    : { program: join(node.folder, "bin/node"), version: node.version, packages };
}

/** its folder in a sandbox, which is first in PATH */
export function nodeFolder(node: NodeRuntime, { folder }: ImageConventions): string {
  return `${folder}/runtimes/node${node.version.split(".", 1)[0]}`;
}

/** raise this when the files beside the packages change */
const layoutVersion = 4;

/** the folder of the files inside a shared layer; the layer above it shows them at nodeFolder() */
export const sharedNodeFolder = "/sandkeep-node";

/** an id that identifies the complete content of the layer */
export function nodeLayerId(node: NodeRuntime): string {
  const packages = node.packages.map(({ name, version }) => `${name}-${version}`).join("-");
  const id = `node-${node.version}-${packages}-${process.arch}-v${layoutVersion}`;
  return id.replaceAll(/[^a-z0-9-]/g, "-");
}

/** The store for the layer, and the conventions for its folder's name. */
interface NodePlace {
  layers: LayerStore;
  claim: Claim;
  conventions: ImageConventions;
}

/** the layer, made if it is not in the store */
export async function nodeLayer({ layers, claim, conventions }: NodePlace, node: NodeRuntime): Promise<LayerInfo> {
  const id = nodeLayerId(node);
  await claim.add(id);
  const there = await layers.get(id);
  if (there) return there;
  return layers.create(claim, async (files) => {
    const writer = new LayerWriter(files);
    await writeWay(writer, conventions);
    await writeFiles(writer, node, nodeFolder(node, conventions));
    return id;
  });
}

/** the same files in a layer below the volumes of all machines, so that they are in memory once */
export function sharedNodeLayer(layers: LayerStore, claim: Claim, node: NodeRuntime): Promise<LayerInfo> {
  return layers.share(claim, `${nodeLayerId(node)}-shared`, (folder) =>
    writeFiles(new TreeWriter(folder), node, sharedNodeFolder),
  );
}

/** shows the files of a shared layer, which lies below, at nodeFolder(), and hides their original folder */
export async function writeSharedNode(writer: LayerWriter, conventions: ImageConventions, node: NodeRuntime) {
  const folder = nodeFolder(node, conventions);
  await writeWay(writer, conventions);
  await writer.directory(folder, { owner: plainUser });
  await writer.redirect(folder, sharedNodeFolder);
  await writer.remove(sharedNodeFolder);
  await writer.whiteout(sharedNodeFolder);
}

/** writes the parents of Node's folder into the topmost layer, whose facts a sandbox sees */
export async function writeWay(writer: LayerWriter, { folder }: ImageConventions): Promise<void> {
  for (const path of [folder, `${folder}/runtimes`]) await writer.directory(path, { owner: plainUser });
}

/**
 * Settings of npm, below those of its user and of a project. By default npm runs install scripts, but warns of each one
 * that no project has approved, and of newer releases of itself. Programs that read its output take both for failures.
 * A script can only affect its own sandbox. An address that a policy refuses never answers: npm still tries twice more,
 * after 1 and 3 seconds instead of 10 and 60.
 */
const npmrc = [
  "update-notifier=false",
  "dangerously-allow-all-scripts=true",
  "fetch-retry-mintimeout=1000",
  "fetch-retry-factor=3",
  "",
].join("\n");

async function writeFiles(writer: LayerWriter | TreeWriter, node: NodeRuntime, folder: string): Promise<void> {
  // Directories belong to the plain user, so that `npm install --global` needs no sudo: it replaces files, and writes to
  // none that is there.
  for (const part of ["", "/bin", "/lib", "/lib/node_modules", "/share"]) {
    await writer.directory(`${folder}${part}`, { owner: plainUser });
  }
  await writer.copyFile(node.program, `${folder}/bin/node`, { mode: 0o755 });
  for (const { name, folder: from, programs } of node.packages) {
    const to = `${folder}/lib/node_modules/${name}`;
    await copyTree(writer, from, to, { owner: plainUser });
    for (const [program, path] of Object.entries(programs)) {
      await writer.copyFile(join(from, path), `${to}/${path}`, { mode: 0o755 });
      await writer.symlink(`../lib/node_modules/${name}/${path}`, `${folder}/bin/${program}`);
    }
    if (name === "npm") await writer.file(`${to}/npmrc`, npmrc, { owner: plainUser });
  }
}

/** a package that npm installed, in any node_modules folder above this file */
function packageNamed(name: string): { folder: string; version: string } | undefined {
  try {
    const description = findPackageJSON(name, import.meta.url) ?? "";
    const { version } = JSON.parse(readFileSync(description, "utf8")) as { version: string };
    return { folder: dirname(description), version };
  } catch {
    return undefined;
  }
}
