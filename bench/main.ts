/**
 * `npm run bench [boot|exec|snapshots|images|density|store|lists|pruning-sqlite|pruning-postgres|http|transfers|cli|
 * e2b|pause|egress|events|expiry|web …]`: measures the promises of SPECIFICATION.md on this machine, beside comparable tools. It
 * asserts nothing, and prints by how much a goal is missed.
 */

import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { withRuntime } from "../test/harness/machine.ts";
import { makePackage } from "../test/harness/package.ts";
import { benchBoot, benchExec } from "./boot.ts";
import { benchCli } from "./cli.ts";
import { benchDensity } from "./density.ts";
import { benchE2b } from "./e2b.ts";
import { benchEgress } from "./egress/egress.ts";
import { benchExpiry } from "./expiry.ts";
import { benchEvents } from "./http/events.ts";
import { benchHttp } from "./http/http.ts";
import { benchImages } from "./images.ts";
import { benchLists } from "./lists.ts";
import { benchPauses } from "./pauses.ts";
import { benchPruningPostgres, benchPruningSqlite } from "./pruning.ts";
import { benchSnapshots } from "./snapshots.ts";
import { benchStore } from "./store.ts";
import { benchTransfers } from "./transfers.ts";

const pool = { hot: 8, warm: 8 };
const noPool = { hot: 0, warm: 0 };

const parts: Record<string, (undo: AsyncDisposableStack) => Promise<string>> = {
  async boot(undo) {
    const pooled = await withRuntime(undo, { pool });
    const cold = await withRuntime(undo, { pool: noPool });
    undo.defer(() => rm(`${pooled.directory}/peers`, { recursive: true, force: true }));
    return benchBoot(pooled.runtime, cold.runtime, `${pooled.directory}/peers`, 40);
  },
  async exec(undo) {
    return benchExec((await withRuntime(undo)).runtime, 100);
  },
  async snapshots(undo) {
    const results: string[] = [];
    for (const durability of ["power", "process"] as const) {
      results.push(await benchSnapshots((await withRuntime(undo, { pool, durability })).runtime, durability));
    }
    return results.join("\n\n");
  },
  async images(undo) {
    const { runtime, directory } = await withRuntime(undo, { pool: noPool });
    return benchImages(undo, runtime, join(directory, "store"));
  },
  async density(undo) {
    return benchDensity(await withRuntime(undo, { pool: noPool }), 10_000);
  },
  store: (undo) => benchStore(undo, 1_000_000),
  lists: (undo) => benchLists(undo, 1_000_000),
  "pruning-sqlite": (undo) => benchPruningSqlite(undo, 1_000_000),
  "pruning-postgres": (undo) => benchPruningPostgres(undo, 1_000_000),
  http: (undo) => benchHttp(undo),
  transfers: (undo) => benchTransfers(undo),
  cli: (undo) => benchCli(undo),
  e2b: (undo) => benchE2b(undo),
  pause: (undo) => benchPauses(undo),
  egress: (undo) => benchEgress(undo),
  events: (undo) => benchEvents(undo, 1_000_000),
  expiry: (undo) => benchExpiry(undo, { all: 10_000, live: 1000 }),
  async web(undo) {
    // It has code for pages, which is checked with the types of browsers (tsconfig.web.json), so it is not imported above.
    const module = "./web/web.ts";
    return (await import(module)).benchWeb(undo, 10_000);
  },
};

const wanted = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "sandkeep-bench-"));
await chmod(folder, 0o755);
try {
  await makePackage(folder);
  for (const name of wanted.length > 0 ? wanted : Object.keys(parts)) {
    const part = parts[name];
    if (!part) throw new Error(`There is no benchmark "${name}": ${Object.keys(parts).join(", ")}`);
    await using undo = new AsyncDisposableStack();
    console.log(`\n${await part(undo)}`);
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
