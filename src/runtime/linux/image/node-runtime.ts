/**
 * The layer with our own Node in /vercel/runtimes, npm and npx beside it. It lies on top of every image whose C library
 * can run it, and is made once for each version.
 */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Claim } from "../claims.ts";
import type { LayerInfo, LayerStore } from "../layers.ts";
import { LayerWriter, plainUser } from "./layer-writer.ts";

/** Where the parts of the runtime are on the host. */
export interface NodeRuntime {
  /** the node program */
  program: string;
  version: string;
  /** npm's package directory */
  npm: string;
  npmVersion: string;
}

/** the Node that came with this package, or the one that runs us */
export function ownNode(): NodeRuntime {
  const require = createRequire(import.meta.url);
  const npm = dirname(require.resolve("npm/package.json"));
  const { version: npmVersion } = require("npm/package.json") as { version: string };
  return { program: nodeProgram(), version: process.versions.node, npm, npmVersion };
}

/** where it is in a sandbox; programs are found there first */
export function nodeFolder(node: NodeRuntime): string {
  return `/vercel/runtimes/node${node.version.split(".", 1)[0]}`;
}

/** the layer, made unless it is in the store */
export async function nodeLayer(layers: LayerStore, claim: Claim, node: NodeRuntime): Promise<LayerInfo> {
  const id = `node-${node.version}-npm-${node.npmVersion}-${process.arch}`.replaceAll(/[^a-z0-9-]/g, "-");
  await claim.add(id);
  const there = await layers.get(id);
  if (there) return there;
  return layers.create(claim, async (files) => {
    await writeNode(new LayerWriter(files), node);
    return id;
  });
}

async function writeNode(writer: LayerWriter, node: NodeRuntime): Promise<void> {
  const folder = nodeFolder(node);
  // The plain user's, so that `npm install --global` needs no sudo.
  for (const part of ["", "/bin", "/lib", "/lib/node_modules", "/share"]) {
    await writer.directory(`${folder}${part}`, { owner: plainUser });
  }
  await writer.copyFile(node.program, `${folder}/bin/node`, { mode: 0o755 });
  await writer.copyTree(node.npm, `${folder}/lib/node_modules/npm`, { owner: plainUser });
  await writer.symlink("../lib/node_modules/npm/bin/npm-cli.js", `${folder}/bin/npm`);
  await writer.symlink("../lib/node_modules/npm/bin/npx-cli.js", `${folder}/bin/npx`);
}

function nodeProgram(): string {
  const own = join(import.meta.dirname, "../../../../node_modules", `node-linux-${process.arch}`, "bin/node");
  return existsSync(own) ? own : process.execPath;
}
