/** Tests of `sandkeep image …`. */

import { Readable } from "node:stream";
import { pack } from "tar-stream";
import { expect, test } from "vitest";
import { refusal } from "../../../test/harness/guest/file-guest.ts";
import { type TestStore, useLayerTools } from "../../../test/harness/images/layer-tools.ts";
import { vercelConventions } from "../../api/vercel/conventions.ts";
import { imageCommand } from "./image.ts";

const { store } = useLayerTools();

/** runs a command on a store; returns its output */
async function run(at: TestStore, args: string[], input: Uint8Array = Buffer.alloc(0)): Promise<string[]> {
  const printed: string[] = [];
  await imageCommand(args, {
    open: async () => ({
      store: at.path,
      layers: at.layers,
      images: at.images,
      conventions: vercelConventions.image,
      requireRoom: () => {},
      collect: async () => (await at.snapshots.collect()).length,
      close: async () => {},
    }),
    registries: () => {
      throw new Error("Nothing is pulled here");
    },
    input: Readable.from([input]),
    print: (line) => void printed.push(line),
    progress: () => {},
  });
  return printed;
}

async function savedImage(): Promise<Buffer> {
  const config = { os: "linux", rootfs: { diff_ids: [`sha256:${emptyTar}`] } };
  const manifest = [{ Config: "config.json", RepoTags: ["saved:1"], Layers: ["layer.tar"] }];
  const tar = pack();
  tar.entry({ name: "layer.tar" }, Buffer.alloc(1024));
  tar.entry({ name: "config.json" }, JSON.stringify(config));
  tar.entry({ name: "manifest.json" }, JSON.stringify(manifest));
  tar.finalize();
  return Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
}

/** the digest of 1024 zeros */
const emptyTar = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";

test("an image is imported, listed and deleted", async () => {
  const at = await store();
  const size = { total: expect.any(Number), shared: expect.any(Number), own: expect.any(Number) };
  const common = { size, createdAt: expect.stringMatching(/^\d{4}-.*Z$/) };
  expect(await run(at, ["list"])).toEqual(["NAME  TEAM  LAYERS  SIZE  SHARED  OWN  AGE"]);
  expect((await run(at, ["import", "-", "--no-node"], await savedImage())).join()).toMatch(
    /^saved:1 {2}1 layer {2}1 kB/,
  );
  await run(at, ["import", "-", "--no-node", "--name", "mine"], await savedImage());
  expect((await run(at, ["list"])).map((line) => line.split(" ", 1)[0])).toEqual(["NAME", "mine", "saved:1"]);
  expect(JSON.parse((await run(at, ["ls", "--json"])).join())).toEqual([
    { name: "mine", digest: expect.stringMatching(/^sha256:/), layers: 1, ...common },
    { name: "saved:1", digest: expect.stringMatching(/^sha256:/), layers: 1, ...common },
  ]);
  expect(await run(at, ["delete", "mine"])).toEqual([
    "deleted mine; sandboxes and snapshots made from it keep the layers that they need",
  ]);
  expect(await run(at, ["list"])).toHaveLength(2);
  expect(await refusal(run(at, ["delete", "mine"]))).toMatch(/^not-found: Cannot delete image "mine"/);
});

test("an image of a team has its own place beside the host's image of the same name", async () => {
  const at = await store();
  const team = ["--team", "team_a"];
  const names = async (...args: string[]) =>
    JSON.parse((await run(at, ["ls", "--json", ...args])).join()).map(({ name }: { name: string }) => name);
  await run(at, ["import", "-", "--no-node", ...team], await savedImage());
  expect((await run(at, ["ls"])).join()).toMatch(/^NAME.*,saved:1 {2}team_a {2}1 +1 kB +- +1 kB +\d+s$/);
  expect([await names(...team), await names("--team", "team_b")]).toEqual([["saved:1"], []]);
  expect(JSON.parse((await run(at, ["inspect", "saved:1"])).join())).toMatchObject({ owner: "team_a" });
  expect(await refusal(run(at, ["inspect", "saved:1", "--team", "team_b"]))).toMatch(
    /^not-found.*"team_b": there is no such image; there is one with --team team_a$/,
  );
  await run(at, ["import", "-", "--no-node", "--team", "default"], await savedImage());
  for (const verb of ["rm", "history"]) {
    expect(await refusal(run(at, [verb, "saved:1"]))).toMatch(
      /^invalid.*: more than one team has it; add --team team_a or --team team_default$/,
    );
  }
  await run(at, ["rm", "saved:1", "--team", "default"]);
  expect(JSON.parse((await run(at, ["inspect", "saved:1", ...team])).join())).toMatchObject({ owner: "team_a" });
  await run(at, ["import", "-", "--no-node"], await savedImage());
  expect(await run(at, ["history", "saved:1", ...team])).toHaveLength(1);
  await run(at, ["rm", "saved:1", ...team]);
  expect((await run(at, ["ls"])).join()).toMatch(/^NAME.*,saved:1 {2}- +1 +1 kB +- +1 kB +\d+s$/);
  expect(await at.images.get("saved:1", "team_a")).not.toHaveProperty("owner");
  await run(at, ["rm", "saved:1"]);
  await run(at, ["import", "-", "--no-node", ...team], await savedImage());
  await run(at, ["rm", "saved:1"]);
  expect(await run(at, ["ls"])).toEqual([expect.stringMatching(/^NAME/)]);
});

test("no image is called host but the one of this host's own /usr, and one that a team made earlier can be deleted", async () => {
  const at = await store();
  for (const team of [[], ["--team", "team_a"]]) {
    const imported = run(at, ["import", "-", "--no-node", "--name", "host", ...team], await savedImage());
    expect(await refusal(imported)).toBe(
      `invalid: Cannot name an image "host": this is the name of this host's own /usr`,
    );
  }
  const earlier = { name: "host", owner: "team_a", layers: ["one"], env: {}, user: "root", cwd: "/", createdAt: 1 };
  await at.images.put(earlier);
  expect(await refusal(run(at, ["rm", "host"]))).toMatch(/^invalid: Cannot delete image "host": it is this host's own/);
  await run(at, ["rm", "host", "--team", "team_a"]);
  expect(await at.images.list()).toEqual([]);
});

test("an image gets further names, which can be listed, replaced and deleted", async () => {
  const at = await store();
  await run(at, ["import", "-", "--no-node", "--name", "mine"], await savedImage());
  await run(at, ["import", "-", "--no-node", "--name", "other"], await savedImage());
  expect(await run(at, ["aliases"])).toEqual([]);
  const pattern = "vcr.vercel.com/vercel/eve/base:*";
  expect(await run(at, ["alias", pattern, "mine"])).toEqual([`${pattern} is mine`]);
  await run(at, ["alias", "node:22", "mine"]);
  await run(at, ["alias", "node:22", "other"]);
  expect(await run(at, ["aliases"])).toEqual([`${pattern} is mine`, "node:22 is other"]);
  expect(await run(at, ["unalias", "node:22"])).toEqual(["node:22 is no alias any more"]);
  expect(await run(at, ["aliases"])).toEqual([`${pattern} is mine`]);
});

test("with --json every command prints what it has done as JSON", async () => {
  const at = await store();
  const json = async (args: string[], input?: Uint8Array) =>
    JSON.parse((await run(at, [...args, "--json"], input)).join());
  const size = { total: expect.any(Number), shared: 0, own: expect.any(Number) };
  expect(await json(["import", "-", "--no-node"], await savedImage())).toMatchObject({
    ...{ name: "saved:1", digest: expect.stringMatching(/^sha256:/), layers: 1, size },
  });
  expect(await json(["history", "saved:1"])).toEqual([
    { size: expect.any(Number), layer: expect.stringMatching(/^sha256:/) },
  ]);
  expect(await json(["inspect", "saved:1"])).toMatchObject({ name: "saved:1", size });
  expect(await json(["alias", "a:*", "saved:1"])).toEqual({ pattern: "a:*", image: "saved:1" });
  expect(await json(["aliases"])).toEqual([{ pattern: "a:*", image: "saved:1" }]);
  expect(await json(["unalias", "a:*"])).toEqual({ pattern: "a:*", deleted: true });
  expect(await json(["rm", "saved:1"])).toEqual({ name: "saved:1", deleted: true });
  expect(await json(["prune"])).toEqual({ layers: expect.any(Number) });
});

test("an alias of a missing image, a malformed one and a missing one are refused, and change nothing", async () => {
  const at = await store();
  await run(at, ["import", "-", "--no-node", "--name", "mine"], await savedImage());
  expect(await refusal(run(at, ["alias", "a:*", "gone"]))).toBe(
    'not-found: Cannot alias "a:*": there is no image named "gone"',
  );
  for (const pattern of ["", "a b", "a\n", "ä", "a".repeat(256)]) {
    expect(await refusal(run(at, ["alias", pattern, "mine"])), pattern).toMatch(/^invalid: Cannot alias/);
  }
  expect(await refusal(run(at, ["unalias", "a:*"]))).toMatch(/^not-found: Cannot delete the alias "a:\*"/);
  expect(await run(at, ["aliases"])).toEqual([]);
});

test("invalid arguments are an error with the usage", async () => {
  const at = await store();
  for (const args of [["frob"], ["import"], ["delete", "a", "b"], ["import", "x", "--frob"], ["build", "windows"]]) {
    expect(await refusal(run(at, args)), args.join(" ")).toMatch(/^invalid: .*\n\nUsage:/s);
  }
  expect(await refusal(run(at, ["prune", "--team", "team_a"]))).toMatch(
    /^invalid: Cannot use --team with "image prune": it is for pull, import, build, ls, inspect, history, rm\n\nUsage:/,
  );
  expect(await refusal(run(at, ["ls", "--name", "a"]))).toMatch(/: it is for pull, import, build\n/);
  expect(await refusal(run(at, ["lst"]))).toMatch(/: there is no such command. Did you mean "ls"\?\n/);
  expect(await refusal(run(at, ["exprt"]))).toMatch(/: there is no such command. Did you mean "export"\?\n/);
  expect(await refusal(run(at, ["constructor"]))).toMatch(/: there is no such command. There are pull, /);
  expect((await run(at, [])).join()).toMatch(/^Usage:/);
  expect((await run(at, ["--help"])).join()).toMatch(/^Usage:/);
});
