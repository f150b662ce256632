/**
 * Every fault, at many moments of a mixed load: see test/chaos/. Here with a fixed seed, SQLite and each fault once;
 * `npm run chaos` takes a random seed, both databases and many faults. CHAOS_SEED, CHAOS_FAULTS (how many) and
 * CHAOS_ONLY (part of a fault's name) change this.
 */

import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Fault, faults, faultsOfHostDisk, faultsOfPostgres } from "../../chaos/faults.ts";
import { expectNothingStray } from "../../chaos/host.ts";
import { runtimeOf, type Scene, type SceneOptions, setScene } from "../../chaos/scene.ts";
import { pausedSessions, runningSessions, verify } from "../../chaos/verification.ts";
import { eventually } from "../../harness/harness.ts";
import { randomFrom } from "../../harness/random.ts";

const { CHAOS_SEED = "1", CHAOS_FAULTS, CHAOS_ONLY = "", CHAOS_HOST_DISK } = process.env;
const seed = CHAOS_SEED === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(CHAOS_SEED);
const isShort = CHAOS_FAULTS === undefined;
const clients = 3;
/** number of faults between two checks of everything */
const together = isShort ? 4 : 1;

const { "the power goes off": _, ...withoutPower } = faults;
const ofHostDisk = CHAOS_HOST_DISK ? faultsOfHostDisk : {};
/** the server of PostgreSQL is not on the disk that loses power */
const ofPostgres = { ...withoutPower, ...faultsOfPostgres, ...ofHostDisk };

type Case = [string, SceneOptions["database"], Record<string, Fault>];

test.each<Case>([
  ["SQLite", "sqlite", { ...faults, ...ofHostDisk }],
  // test/e2e/faults/postgres.test.ts tests restarts and killed backends one by one.
  ...(isShort ? [] : [["PostgreSQL", "postgres", ofPostgres] satisfies Case]),
])(
  `with %s, everything acknowledged survives every fault (CHAOS_SEED=${seed})`,
  {
    timeout: 3_600_000,
  },
  async (_name, database, table) => {
    await using undo = new AsyncDisposableStack();
    const random = randomFrom(seed);
    const scene = await setScene(undo, { database, random });
    const { load, daemon } = scene;
    const running = load.run(seed, clients);
    undo.defer(async () => {
      load.stop();
      await running;
    });
    const drawn = drawnFrom(table, random);
    for (const [index, [name, strike]] of drawn.entries()) {
      await load.worked(5 + random() * 20);
      await pause(random() * 300);
      const begun = performance.now();
      await strike(scene);
      const struck = performance.now();
      if ((index + 1) % together > 0 && index + 1 < drawn.length) continue;
      await load.settled(async () => {
        await verify(daemon, load.known);
        await expectNothingStray(scene);
      });
      const times = [struck - begun, performance.now() - struck].map(Math.round);
      if (!isShort) process.stdout.write(`${name}: ${times[0]} ms, verified in ${times[1]} ms\n`);
      expect(load.known.violations, `after: ${name}\n${daemon.complaints()}`).toEqual([]);
    }
    load.stop();
    await running;
    await expectReconciled(scene);
  },
);

/** every fault in random order, repeated up to the requested number */
function drawnFrom(table: Record<string, Fault>, random: () => number): [string, Fault][] {
  const all = Object.entries(table).filter(([name]) => name.includes(CHAOS_ONLY));
  if (all.length === 0) return [];
  const many = isShort ? all.length : Number(CHAOS_FAULTS);
  const shuffled = () => all.map((fault) => ({ fault, at: random() })).sort((a, b) => a.at - b.at);
  const rounds = Array.from({ length: Math.ceil(many / all.length) }, shuffled);
  return rounds.flatMap((round) => round.map(({ fault }) => fault)).slice(0, many);
}

/** checks that the next daemon finds everything that exists, and nothing else */
async function expectReconciled(scene: Scene): Promise<void> {
  const idsOf = (items: { id: string }[]) => items.map(({ id }) => id).sort();
  const alive = idsOf(await runningSessions(scene.daemon));
  const paused = idsOf(await pausedSessions(scene.daemon));
  await scene.daemon.stop();
  const runtime = await runtimeOf(scene);
  try {
    // Machines of the pool come and go meanwhile.
    await eventually("the host and the ledger agree", async () => {
      expect(await runtime.reconcile()).toEqual([]);
      return true;
    });
    const machines = runtime.machines();
    expect(idsOf(machines.filter(({ isPaused }) => !isPaused))).toEqual(alive);
    expect(idsOf(machines.filter(({ isPaused }) => isPaused))).toEqual(paused);
  } finally {
    await runtime.close();
  }
}
