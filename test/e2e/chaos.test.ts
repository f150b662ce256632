/**
 * kill -9 of the daemon at many moments of a mixed load. Here with a fixed seed; `npm run chaos` takes a random one, and
 * CHAOS_SEED and CHAOS_KILLS say otherwise.
 */

import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { LinuxRuntime } from "../../src/runtime/linux/driver.ts";
import { daemonOfFile } from "../daemon.ts";
import { eventually, root } from "../harness.ts";
import { guestBinary } from "../needs.ts";
import { Load, randomFrom } from "./chaos.ts";
import { raw } from "./clients.ts";

const daemon = daemonOfFile();
const { CHAOS_SEED = "1", CHAOS_KILLS = "8" } = process.env;
const seed = CHAOS_SEED === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(CHAOS_SEED);
const kills = Number(CHAOS_KILLS);

test(
  `everything acknowledged is there after ${kills} kills (CHAOS_SEED=${seed})`,
  async () => {
    const load = new Load(daemon());
    const random = randomFrom(seed);
    const running = load.run(seed, 5);
    for (let kill = 0; kill < kills; kill++) {
      await pause(100 + random() * 1200);
      await load.killOnce(random() * 100);
    }
    await pause(300);
    load.stop();
    await running;
    expect(load.counts.acknowledged).toBeGreaterThan(kills * 5);
    expect(load.counts.unknown).toBeGreaterThan(0);

    const sandboxes = await listed("/v2/sandboxes", "sandboxes");
    expect(new Set(sandboxes.map(({ name }) => name)).size).toBe(sandboxes.length);
    const known = new Set(load.sandboxes.map(({ name }) => name));
    expect(sandboxes.filter(({ name }) => !known.has(name)).map(({ name }) => name)).toEqual([]);

    await load.verify();
    expect(load.violations).toEqual([]);

    const ways = ["pending", "stopping", "snapshotting"];
    await eventually("no session is on its way for ever", async () => {
      const sessions = await listed("/v2/sandboxes/sessions", "sessions");
      return !sessions.some(({ status }) => ways.includes(status));
    });
    const alive = (await listed("/v2/sandboxes/sessions", "sessions")).filter(({ status }) => status === "running");
    const current = (await listed("/v2/sandboxes", "sandboxes")).map(({ currentSessionId }) => currentSessionId);
    expect(alive.filter(({ id }) => !current.includes(id))).toEqual([]);

    await daemon().stop();
    const runtime = await runtimeOf();
    try {
      expect(await runtime.reconcile()).toEqual([]);
      expect(
        runtime
          .machines()
          .map(({ id }) => id)
          .sort(),
      ).toEqual(alive.map(({ id }) => id).sort());
    } finally {
      await runtime.close();
    }
  },
  30_000 + kills * 15_000,
);

interface Listed {
  id: string;
  name: string;
  status: string;
  currentSessionId: string;
}

/** all pages of a list */
async function listed(path: string, member: string): Promise<Listed[]> {
  const all: Listed[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { json } = await raw(daemon(), "GET", `${path}?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    all.push(...json[member]);
    cursor = json.pagination.next;
  }
  return all;
}

/** the machines as the next daemon would find them */
async function runtimeOf(): Promise<LinuxRuntime> {
  const { dataDir, runDir } = daemon();
  const egress = [process.execPath, join(root, "src/egress/main.ts")];
  const runtime = new LinuxRuntime({ dataDir, runRoot: runDir, guest: guestBinary, egress });
  await runtime.open();
  return runtime;
}
