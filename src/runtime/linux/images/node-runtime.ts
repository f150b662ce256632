/**
 * The layer with our own Node, and beside it npm, pnpm, and yarn by way of corepack, which fetches
 * the release that a project names. It lies on top of every imported image whose C library can run it, and is made once
 * for each version. The default image has it below, where all machines share it.
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

/** Where the parts of the runtime are on the host. */
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
  /** its programs by their names, as paths inside it */
  programs: Record<string, string>;
}

const installed: Record<string, Record<string, string>> = {
  npm: { npm: "bin/npm-cli.js", npx: "bin/npx-cli.js" },
  pnpm: { pnpm: "bin/pnpm.cjs", pnpx: "bin/pnpx.cjs" },
  corepack: { corepack: "dist/corepack.js", yarn: "dist/yarn.js", yarnpkg: "dist/yarnpkg.js" },
};

/** what is found beside Node, by name */
export const nodePrograms = ["node", ...Object.values(installed).flatMap((programs) => Object.keys(programs))];

/** the Node that came with this package, or the one that runs us where there is none for this host */
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

/** where it is in a sandbox; programs are found there first */
export function nodeFolder(node: NodeRuntime, { folder }: ImageConventions): string {
  return `${folder}/runtimes/node${node.version.split(".", 1)[0]}`;
}

/** to be raised when what is written beside the packages changes */
const layoutVersion = 3;

/** where the files of a layer that is shared are in it; whoever lies above it puts them into nodeFolder() */
export const sharedNodeFolder = "/sandkeep-node";

/** says all that is in the layer */
export function nodeLayerId(node: NodeRuntime): string {
  const packages = node.packages.map(({ name, version }) => `${name}-${version}`).join("-");
  const id = `node-${node.version}-${packages}-${process.arch}-v${layoutVersion}`;
  return id.replaceAll(/[^a-z0-9-]/g, "-");
}

/** Where the layer goes, and what its folder is called. */
interface NodePlace {
  layers: LayerStore;
  claim: Claim;
  conventions: ImageConventions;
}

/** the layer, made unless it is in the store */
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

/** puts the files of a shared layer, which lies below, where Node belongs, and hides where they are in it */
export async function writeSharedNode(writer: LayerWriter, conventions: ImageConventions, node: NodeRuntime) {
  const folder = nodeFolder(node, conventions);
  await writeWay(writer, conventions);
  await writer.directory(folder, { owner: plainUser });
  await writer.redirect(folder, sharedNodeFolder);
  await writer.remove(sharedNodeFolder);
  await writer.whiteout(sharedNodeFolder);
}

/** the folders that lead to Node, in the topmost layer: what that has on the way is what a sandbox sees */
export async function writeWay(writer: LayerWriter, { folder }: ImageConventions): Promise<void> {
  for (const path of [folder, `${folder}/runtimes`]) await writer.directory(path, { owner: plainUser });
}

/**
 * Settings of npm, below those of its user and of a project. npm runs install scripts unless it is told otherwise, but
 * warns of each that no project has approved, and of newer releases of itself: programs that read its output take both
 * for failures. Whatever a script does, it does inside. An address that a policy refuses never answers: npm still tries
 * twice more, after 1 and 3 seconds instead of 10 and 60.
 */
const npmrc = [
  "update-notifier=false",
  "dangerously-allow-all-scripts=true",
  "fetch-retry-mintimeout=1000",
  "fetch-retry-factor=3",
  "",
].join("\n");

async function writeFiles(writer: LayerWriter | TreeWriter, node: NodeRuntime, folder: string): Promise<void> {
  // The plain user's, so that `npm install --global` needs no sudo.
  for (const part of ["", "/bin", "/lib", "/lib/node_modules", "/share"]) {
    await writer.directory(`${folder}${part}`, { owner: plainUser });
  }
  await writer.copyFile(node.program, `${folder}/bin/node`, { mode: 0o755 });
  for (const { name, folder: from, programs } of node.packages) {
    const to = `${folder}/lib/node_modules/${name}`;
    await copyTree(writer, from, to, { owner: plainUser });
    for (const [program, path] of Object.entries(programs)) {
      await writer.copyFile(join(from, path), `${to}/${path}`, { mode: 0o755, owner: plainUser });
      await writer.symlink(`../lib/node_modules/${name}/${path}`, `${folder}/bin/${program}`);
    }
    if (name === "npm") await writer.file(`${to}/npmrc`, npmrc, { owner: plainUser });
  }
}

/** a package that npm installed, wherever above this file it put it */
function packageNamed(name: string): { folder: string; version: string } | undefined {
  try {
    const description = findPackageJSON(name, import.meta.url) ?? "";
    const { version } = JSON.parse(readFileSync(description, "utf8")) as { version: string };
    return { folder: dirname(description), version };
  } catch {
    return undefined;
  }
}
