/** Damage to records, as a crash or a bad disk may cause it while no daemon runs, and what that costs. */

import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Scene } from "./scene.ts";

export type Damage = (scene: Scene) => Promise<void>;

export const damages: Record<string, Damage> = {
  "records of machines are torn": async (scene) => {
    const machines = join(scene.daemon.dataDir, "store/machines");
    const records = readdirSync(machines).map((name) => join(machines, name, "machine.json"));
    tear(scene, records.filter(existsSync));
  },
  "records of snapshots are torn": async (scene) => {
    tear(scene, recordsIn(join(scene.daemon.dataDir, "store/snapshots")));
  },
  "records of images are torn": async (scene) => {
    tear(scene, recordsIn(join(scene.daemon.dataDir, "store/images")));
  },
  "lines of the ledger are torn": async ({ daemon, random }) => {
    const path = join(daemon.dataDir, "ledger.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    const at = Math.floor(random() * lines.length);
    const cut = (line: string, index: number) => (index === at ? `${line.slice(0, line.length / 2)}\0` : line);
    writeFileSync(path, lines.map(cut).join("\n"));
  },
  /** costs the output and the exit status of those commands */
  "journals of commands are torn": async ({ daemon, load, random }) => {
    const machines = join(daemon.dataDir, "store/machines");
    const folders = readdirSync(machines).map((name) => join(machines, name, "journal"));
    const files = folders.flatMap((folder) =>
      existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [],
    );
    const torn = files.filter(() => random() < 0.2);
    for (const path of torn) truncateSync(path, Math.floor(statSync(path).size * random()));
    const ids = new Set(torn.map((path) => /([^/.]+)\.[^/]*$/.exec(path)?.[1] ?? ""));
    for (const sandbox of load.known.sandboxes) sandbox.commands = sandbox.commands.filter(({ id }) => !ids.has(id));
  },
};

function recordsIn(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => /^[^.].*\.json$/.test(name));
  return names.map((name) => join(folder, name));
}

/** damages half of them, each in a random way */
function tear({ random }: Scene, paths: string[]): void {
  const ways: ((path: string) => void)[] = [
    (path) => truncateSync(path, 0),
    (path) => truncateSync(path, Math.floor(statSync(path).size * random())),
    (path) => writeFileSync(path, Buffer.alloc(statSync(path).size)),
    (path) => writeFileSync(path, "[]"),
  ];
  for (const path of paths.filter(() => random() < 0.5)) ways[Math.floor(random() * ways.length)]?.(path);
}
