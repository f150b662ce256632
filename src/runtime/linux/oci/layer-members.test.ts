/** Layers that tar(1) packs with unusual files: each has what it had before, or is refused by name. */

import { execFile } from "node:child_process";
import { chmod, chown, link, lstat, mkdir, open, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { dockerFiles, fileOf, stores, tarOf, tarOfFiles } from "../../../../test/harness/images/image-archives.ts";
import { useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { importImage } from "./import.ts";

const run = promisify(execFile);
const { store } = useLayerTools();
const name = "n".repeat(255);
const deep = `${`${"d".repeat(200)}/`.repeat(8)}${name}`;

/** the folder of an image that is imported from a `docker save` of these layers */
async function imported(...layers: Buffer[]): Promise<string> {
  const at = await store({ volumes: true });
  const saved = await fileOf(at, await tarOfFiles(dockerFiles({ layers, packed: gzipSync })));
  const image = await importImage(stores(at), saved, { node: false });
  const [folder = ""] = await at.layers.lowerDirs([image.kept?.at(-1) ?? ""]);
  return folder;
}

/** attributes exist in pax only */
async function packed(folder: string, format: string, ...options: string[]): Promise<Buffer> {
  const attributes = format === "pax" ? ["--xattrs", "--xattrs-include=*"] : [];
  const all = [`--format=${format}`, ...attributes, "--sparse", "--numeric-owner", ...options];
  await run("tar", ["-C", folder, ...all, "-cf", `${folder}.tar`, "."]);
  return readFile(`${folder}.tar`);
}

async function tree(): Promise<string> {
  const folder = join(await tempDir(), "tree");
  await mkdir(join(folder, "bin"), { recursive: true });
  await mkdir(join(folder, deep, ".."), { recursive: true });
  await writeFile(join(folder, deep), "deep");
  const sparse = await open(join(folder, "sparse"), "w");
  for (let at = 0; at < 30; at++) await sparse.write("data", at * 100_000);
  await sparse.close();
  await truncate(join(folder, "sparse"), 20 << 20);
  await writeFile(join(folder, "bin/able"), "program");
  await chown(join(folder, "bin/able"), 65_535, 65_535);
  await chmod(join(folder, "bin/able"), 0o6755);
  await run("setcap", ["cap_net_raw,cap_chown+ep", join(folder, "bin/able")]);
  await link(join(folder, "bin/able"), join(folder, "bin/same"));
  return folder;
}

test.each(["pax", "gnu"])(
  "sparse files, capabilities, links, names and modes of tar --format=%s are kept",
  async (format) => {
    const source = await tree();
    const upper = await tarOf([{ name: "bin/third", type: "link", linkname: "bin/able" }]);
    const folder = await imported(await packed(source, format), upper);
    expect((await readFile(join(folder, "sparse"))).equals(await readFile(join(source, "sparse")))).toBe(true);
    expect(await readFile(join(folder, deep), "utf8")).toBe("deep");
    const able = await lstat(join(folder, "bin/able"));
    expect(able).toMatchObject({ uid: 65_535, gid: 65_535, mode: 0o106755, nlink: 3 });
    for (const other of ["same", "third"]) expect((await lstat(join(folder, "bin", other))).ino).toBe(able.ino);
    const { stdout } = await run("getcap", [join(folder, "bin/able")]);
    if (format === "pax") expect(stdout).toContain("cap_chown,cap_net_raw=ep");
  },
);

test.each<[string, string[], (folder: string) => Promise<unknown>, string]>([
  ["an owner above 65535", ["--owner=:70000"], () => Promise.resolve(), "its owner is not between 0 and 65535"],
  ["a group above 65535", ["--group=:4000000000"], () => Promise.resolve(), "its owner is not between 0 and 65535"],
  ["a device", [], (folder) => run("mknod", [join(folder, "disk"), "b", "8", "0"]), "device nodes are not allowed"],
])("%s is refused by name", async (_, options, change, why) => {
  const folder = join(await tempDir(), "tree");
  await mkdir(folder);
  await change(folder);
  for (const format of ["pax", "gnu"]) {
    const said = await refusal(packed(folder, format, ...options).then((tar) => imported(tar)));
    expect(said).toMatch(new RegExp(`^invalid: Cannot extract "\\./?(disk)?": ${why}$`));
  }
});

test("the holes of sparse files count as much as their data", async () => {
  const folder = join(await tempDir(), "tree");
  await mkdir(folder);
  await writeFile(join(folder, "huge"), "x");
  await truncate(join(folder, "huge"), 2 ** 40);
  for (const format of ["pax", "gnu"]) {
    const tar = await packed(folder, format);
    expect(tar.length).toBeLessThan(100_000);
    expect(await refusal(imported(tar))).toMatch(
      /^limit: Cannot import the image: it is larger than 68719476736 bytes/,
    );
  }
});
