/**
 * The faults of a chaos run: a table by name. Each one strikes while clients work, waits until the daemon has
 * recovered, and says which error answers it may cause. Any other effect is a violation.
 */

import { execFile } from "node:child_process";
import { rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { raw } from "../e2e/clients.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { eventually } from "../harness/harness.ts";
import { damages } from "./damages.ts";
import type { Excuse } from "./load.ts";
import { firstProcesses, kill, powerCycle, processesCalled, type Scene } from "./scene.ts";

const run = promisify(execFile);

export type Fault = (scene: Scene) => Promise<void>;

/** the answer for a session whose machine died; the wire of pauses has no other status for it than 404 */
const gone: Excuse = ({ status, text }) => status === 410 || (status === 404 && text.includes("it has stopped"));
/** as above, or a request that the launcher was busy with */
const cutOff: Excuse = (answer) => gone(answer) || answer.status === 503;
/** no room: a clear error, never a fault of the daemon */
const full: Excuse = (answer) => gone(answer) || [422, 503, 507].includes(answer.status);
const unavailable: Excuse = ({ status, headers }) => status === 503 && headers.get("retry-after") === "1";

export const faults = {
  "the daemon is killed": async ({ daemon, load, random }) => {
    await load.interrupted(async () => {
      await daemon.kill9();
      await pause(random() * 100);
      await daemon.start();
    });
  },
  /** costs the machines that it was making, those of the pool included: they are dead when they are used */
  "the launcher is killed": ({ load, ...scene }) =>
    load.excusing(cutOff, async () => {
      await killed({ load, ...scene }, "sandkeep-guest");
      await boots(scene.daemon, 3);
    }),
  "the network process is killed": (scene) => killed(scene, "sandkeep-netd"),
  "the egress process is killed": (scene) => killed(scene, "sandkeep-egress"),
  "the keeper of the egress process is killed": (scene) => killed(scene, "sandkeep-keeper"),
  "first processes of sandboxes are killed": async (scene) => {
    const { daemon, load, random } = scene;
    const struck = firstProcesses(scene).filter(() => random() < 0.5);
    for (const { id } of struck) load.known.deadSessions.add(id);
    await load.excusing(gone, async () => {
      for (const { pid } of struck) kill(pid);
      for (const { id } of struck) {
        await eventually("its session is over", async () => {
          const { status, json } = await raw(daemon, "GET", `/v2/sandboxes/sessions/${id}`);
          return status === 404 || json.session.status !== "running";
        });
      }
    });
  },
  ...Object.fromEntries(
    Object.entries(damages).map(([name, damage]) => [
      name,
      async (scene: Scene) => {
        await scene.load.interrupted(async () => {
          await scene.daemon.kill9();
          await damage(scene);
          await scene.daemon.start();
        });
      },
    ]),
  ),
  "the store is full": (scene) => withoutRoom(scene, join(scene.daemon.dataDir, "store")),
  "the power goes off": async (scene) => {
    const { disk, load, random, durability } = scene;
    await load.interrupted(async () => {
      await disk.lose(Math.floor(random() * 2 ** 31));
      await powerCycle(scene);
      load.known.powerWentOff(durability);
    });
  },
} satisfies Record<string, Fault>;

/** used only if CHAOS_HOST_DISK is set */
export const faultsOfHostDisk: Record<string, Fault> = {
  "the disk below the store is full": async (scene) => {
    await withoutRoom(scene, scene.disk.directory);
    scene.load.known.diskWasFull();
  },
};

export const faultsOfPostgres: Record<string, Fault> = {
  "PostgreSQL restarts": (scene) =>
    withoutDatabase(scene, async ({ server }) => {
      await server.stop();
      await pause(scene.random() * 500);
      await server.start();
    }),
  "backends of PostgreSQL are killed": (scene) =>
    withoutDatabase(scene, async ({ server, url }) => {
      for (let n = 0; n < 5; n++) {
        await server.terminate(url, "true");
        await pause(scene.random() * 200);
      }
    }),
};

/** kills our only process of this name; another one takes its place */
async function killed(scene: Scene, name: string): Promise<void> {
  const before = processesCalled(scene, name);
  for (const pid of before) kill(pid);
  await eventually(`another ${name} runs`, () => {
    const now = processesCalled(scene, name);
    return now.length > 0 && now.every((pid) => !before.includes(pid));
  });
}

/** resolves when this many sandboxes in a row were made */
async function boots(daemon: TestDaemon, many: number): Promise<void> {
  for (let n = 0; n < many; n++) {
    await eventually("a sandbox is made", async () => {
      const made = await raw(daemon, "POST", "/v3/sandboxes", { body: { name: "room", persistent: false } });
      return made.status === 200;
    });
    await eventually("it is gone", async () => (await raw(daemon, "DELETE", "/v2/sandboxes/room")).status === 200);
  }
}

async function withoutDatabase(
  { daemon, load, postgres }: Scene,
  fault: (database: NonNullable<Scene["postgres"]>) => Promise<void>,
): Promise<void> {
  if (!postgres) throw new Error("The daemon of this run has no PostgreSQL");
  await load.excusing(unavailable, async () => {
    await fault(postgres);
    // The daemon answers reads before it has the lock again; without the lock it writes nothing.
    await boots(daemon, 1);
  });
}

async function withoutRoom({ daemon, load, random }: Scene, folder: string): Promise<void> {
  const begun = performance.now();
  await load.excusing(full, async () => {
    const fillers = await filled(folder);
    await pause(500 + random() * 1500);
    for (const path of fillers) await rm(path, { force: true });
    // A write that failed meanwhile shows at the next commit, which must happen before the daemon counts as recovered.
    await run("sync", ["--file-system", join(daemon.dataDir, "store")]).catch(() => undefined);
    await boots(daemon, 1);
  });
  load.known.hadNoRoom(begun);
}

/** takes all the room of a file system; returns the files that took it */
async function filled(folder: string): Promise<string[]> {
  const paths: string[] = [];
  const { bavail, bsize } = await statfs(folder);
  for (let bytes = bavail * bsize; bytes >= 4096; bytes = Math.floor(bytes / 2)) {
    const path = join(folder, `filler-${paths.length}`);
    paths.push(path);
    await run("fallocate", ["-l", `${bytes}`, path]).catch(() => undefined);
  }
  return paths;
}
