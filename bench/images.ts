/**
 * Images: a pull of 300 MB from a registry on this machine beside `skopeo copy`, with and without unpacking; a boot without
 * pools, and a create through a daemon with its usual pools, from a pulled image beside the default one; and the disk
 * space of twenty images that share a base.
 */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { vercelConventions } from "../src/api/vercel/conventions.ts";
import type { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import { pullImage } from "../src/runtime/linux/registry/pull.ts";
import { parseReference } from "../src/runtime/linux/registry/reference.ts";
import { startDaemon } from "../test/harness/daemon.ts";
import { type RegistryOfTest, startRegistry } from "../test/harness/images/registry.ts";
import { childrenWith, familyTime } from "./cpu-time.ts";
import { interleaved, median, type Series, type Subject, table, verdict } from "./measure.ts";
import { RawClient } from "./raw-client.ts";

const run = promisify(execFile);
const sandboxes = "/api/v2/sandboxes";
const sharing = 20;

export async function benchImages(undo: AsyncDisposableStack, runtime: LinuxRuntime, store: string): Promise<string> {
  const registry = await startRegistry(undo, { isOpen: true });
  await makeImages(registry);
  const pull = pullerOf(runtime, registry, store);
  const used = async () => {
    await runtime.sync();
    const { blocks, bfree, bsize } = await statfs(store);
    return (blocks - bfree) * bsize;
  };
  const pulls = await comparePulls(runtime, registry, pull);
  await pull("bench/base:1");
  const boots = await compareBoots(runtime, `${registry.host}/bench/base:1`);
  const creates = await compareCreates(undo, registry);
  const before = await used();
  for (let index = 0; index < sharing; index++) await pull(`bench/app:${index}`);
  const added = (await used()) - before;
  const base = 300e6;
  return [
    ...pulls,
    "",
    ...boots,
    "",
    ...creates,
    "",
    verdict(`${sharing} images that share a base of 300 MB, beside one`, (base + added) / base, 1.2, "x its disk"),
  ].join("\n");
}

/** 300 MB in 3,000 files, half of which compress to almost nothing; and twenty images with one more small layer each */
async function makeImages({ folder, push }: RegistryOfTest): Promise<void> {
  const layout = join(folder, "layout");
  const umoci = (...args: string[]) => run("umoci", args);
  await umoci("init", "--layout", layout);
  await umoci("new", "--image", `${layout}:empty`);
  const bundle = join(folder, "bundle");
  await umoci("unpack", "--image", `${layout}:empty`, bundle);
  for (let index = 0; index < 3000; index++) {
    const place = join(bundle, "rootfs", `d${index % 30}`);
    await mkdir(place, { recursive: true });
    await writeFile(join(place, `f${index}`), Buffer.concat([randomBytes(50_000), Buffer.alloc(50_000, index)]));
  }
  await umoci("repack", "--refresh-bundle", "--image", `${layout}:base`, bundle);
  await push(`oci:${layout}:base`, "bench/base:1");
  for (let index = 0; index < sharing; index++) {
    await writeFile(join(bundle, "rootfs", "own"), `${index}`);
    await umoci("repack", "--image", `${layout}:app-${index}`, bundle);
    await push(`oci:${layout}:app-${index}`, `bench/app:${index}`);
  }
}

function pullerOf(runtime: LinuxRuntime, { host }: RegistryOfTest, store: string) {
  const stores = { store, layers: runtime.layers, images: runtime.images, conventions: vercelConventions.image };
  return (name: string) =>
    pullImage(stores, parseReference(`${host}/${name}`), {
      settings: { http: [host], private: [], mirrors: {} },
      credentials: { find: async () => undefined },
      isTrusted: true,
    });
}

async function comparePulls(
  runtime: LinuxRuntime,
  { host, folder }: RegistryOfTest,
  pull: ReturnType<typeof pullerOf>,
): Promise<string[]> {
  const copy = async (to: string) => {
    const source = `docker://${host}/bench/base:1`;
    await run("skopeo", ["copy", "--insecure-policy", "--src-tls-verify=false", source, to]);
  };
  const place = join(folder, "copied");
  const remove = () => rm(place, { recursive: true, force: true });
  const { measured, used } = withCpuTime([
    {
      name: "skopeo copy (not unpacked)",
      run: async () => {
        await copy(`oci:${place}:x`);
        return remove;
      },
    },
    {
      name: "skopeo copy, umoci unpack",
      run: async () => {
        await copy(`oci:${place}:x`);
        await run("umoci", ["unpack", "--image", `${place}:x`, join(place, "bundle")]);
        return remove;
      },
    },
    {
      name: "skopeo copy containers-storage:",
      run: async () => {
        const storage = `[overlay@${place}/storage+${place}/run]`;
        await copy(`containers-storage:${storage}bench/base:1`);
        return async () => {
          // The driver leaves its folder mounted on itself.
          await run("umount", [join(place, "storage/overlay")]).catch(() => undefined);
          await remove();
        };
      },
    },
    {
      name: "sandkeep (ready to boot)",
      run: async () => {
        const { image } = await pull("bench/base:1");
        return async () => {
          await runtime.images.delete(image.name);
          await runtime.snapshots.collect();
          await runtime.layers.settled();
        };
      },
    },
  ]);
  const series = await interleaved(measured, 3, 1);
  const verdicts = (what: string, all: Series[]) => {
    const [plain, unpacked, storage, own] = all.map(({ samples }) => median(samples));
    const beside = (peer: string, time: number | undefined) =>
      verdict(`${what} of a pull beside ${peer}`, (own ?? 0) / (time ?? 1), 1.2, "x");
    return [
      beside("skopeo copy, which unpacks nothing", plain),
      beside("skopeo copy to containers-storage, which unpacks", storage),
      beside("skopeo copy and umoci unpack", unpacked),
    ];
  };
  return [
    table("pull of 300 MB", series, "skopeo copy (not unpacked)"),
    ...verdicts("time", series),
    "",
    table("its processor time", used, "skopeo copy (not unpacked)"),
    ...verdicts("processor time", used),
  ];
}

/** the same subjects, and the processor time of each run: of this process, its children, and the launcher's helpers */
function withCpuTime(subjects: Subject[]): { measured: Subject[]; used: Series[] } {
  const launchers = childrenWith("launch");
  const time = () => [process.pid, ...launchers].map(familyTime).reduce((sum, each) => sum + each, 0);
  const used = subjects.map(({ name }): Series => ({ name, samples: [] }));
  const measured = subjects.map(({ name, run }, index) => ({
    name,
    async run() {
      const before = time();
      const undo = await run();
      used[index]?.samples.push(time() - before);
      return undo;
    },
  }));
  return { measured, used };
}

async function compareBoots(runtime: LinuxRuntime, image: string): Promise<string[]> {
  let count = 0;
  const boot = (name: string) => async () => {
    const machine = await runtime.boot({ id: `bench-${count++}`, root: { image: name } });
    return async () => {
      await machine.stop();
      await runtime.forget(machine.id);
    };
  };
  const series = await interleaved(
    [
      { name: "default image", run: boot("host") },
      { name: "pulled image", run: boot(image) },
    ],
    30,
    5,
  );
  const [plain, pulled] = series.map(({ samples }) => median(samples));
  return [
    table("boot", series, "default image"),
    verdict("boot from a pulled image beside the default one", (pulled ?? 0) / (plain ?? 1), 1.1, "x"),
  ];
}

/** the pools have their usual sizes, and are full at each create */
async function compareCreates(undo: AsyncDisposableStack, { host }: RegistryOfTest): Promise<string[]> {
  const daemon = await startDaemon(undo, {
    SANDKEEP_POOL_HOT: "4",
    SANDKEEP_POOL_WARM: "4",
    SANDKEEP_REGISTRIES: host,
    SANDKEEP_REGISTRY_HTTP: host,
  });
  const client = await RawClient.open(daemon);
  const full = async () => {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      const metrics = await client.request("GET", "/metrics");
      const waiting = [...metrics.matchAll(/^sandkeep_pooled_machines\{.*\} (\d+)$/gm)];
      if (waiting.reduce((sum, [, count]) => sum + Number(count), 0) === 8) return;
    }
  };
  const create = (body: object) => async () => {
    const { sandbox } = JSON.parse(await client.request("POST", sandboxes, { persistent: false, ...body }));
    return async () => {
      await client.request("DELETE", `${sandboxes}/${sandbox.name}`);
      await full();
    };
  };
  const subjects = [
    { name: "default image", run: create({}) },
    { name: "pulled image", run: create({ image: `${host}/bench/base:1` }) },
  ];
  const series = await interleaved(subjects, 30, 5);
  client.close();
  const [plain, pulled] = series.map(({ samples }) => median(samples));
  return [
    table("create through a daemon with its usual pools", series, "default image"),
    verdict("create from a pulled image beside the default one", (pulled ?? 0) / (plain ?? 1), 1.1, "x"),
  ];
}
