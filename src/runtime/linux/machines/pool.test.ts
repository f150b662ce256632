/** The pool with a maker that makes nothing: what it holds, when it fills, and what becomes of prepared machines that fail. */

import { describe, expect, test, vi } from "vitest";
import { eventually } from "../../../../test/harness/harness.ts";
import type { Limits, MachineSetup, NetworkMode } from "../../../core/ports/runtime.ts";
import type { Agent } from "../guest-wire/agent.ts";
import type { MachinePlan } from "./plan.ts";
import { Pool, type PoolSize } from "./pool.ts";
import type { MachinePreparer, PreparedMachine } from "./prepared-machine.ts";
import { recency } from "./recent-images.ts";

const limits: Limits = { vcpus: 1, memory: 1 << 30, pids: 100, disk: 1 << 30 };

/** stands in for MachinePreparer: counts, and fails when told to */
class FakeMaker {
  made = 0;
  booted: string[] = [];
  rehearsed: string[] = [];
  discarded: string[] = [];
  failing: "prepare" | "boot" | undefined;
  /** a hold on prepare(), to look at the pool while it fills */
  gate: Promise<void> = Promise.resolve();
  readonly dead = new Map<string, () => void>();
  readonly silentlyDead = new Set<string>();

  async prepare(network: NetworkMode, inForce: Limits): Promise<PreparedMachine> {
    await this.gate;
    if (this.failing === "prepare") throw new Error("no namespaces left");
    this.made++;
    return {
      plan: { name: `b${this.made}` } as MachinePlan,
      pid: this.made,
      network,
      limits: inForce,
      hasVolume: true,
    };
  }

  lives(prepared: PreparedMachine): boolean {
    return !this.silentlyDead.has(prepared.plan.name);
  }

  async boot(prepared: PreparedMachine): Promise<void> {
    if (this.failing === "boot") throw new Error("no root");
    this.booted.push(prepared.plan.name);
    const { name } = prepared.plan;
    const agent: Pick<Agent, "whenGone" | "close" | "rehearse"> = {
      whenGone: (call) => void this.dead.set(name, call),
      close() {},
      rehearse: async () => void this.rehearsed.push(name),
    };
    // the pool uses three of its methods
    prepared.agent = agent as Agent;
  }

  async discard(plan: MachinePlan): Promise<void> {
    this.discarded.push(plan.name);
  }
}

function poolOf(size: PoolSize, maker = new FakeMaker()) {
  const logged: unknown[] = [];
  const image: { key: string | undefined } = { key: "host@1" };
  /** of images besides the default one: their keys */
  const others: Record<string, string> = {};
  const pool = new Pool({
    size,
    // the pool uses four of its methods
    maker: maker as unknown as MachinePreparer,
    network: "allow-all",
    limits,
    image: "host",
    root: async (name) => {
      const key = name === "host" ? image.key : others[name];
      if (key === "broken") throw new Error("its layers are gone");
      return key === undefined
        ? undefined
        : {
            key,
            reference: key,
            user: "",
            cwd: "",
            from: undefined,
            isImage: true,
            layers: [],
            limits,
            sudo: true,
            mounts: [],
          };
    },
    logError: (error) => logged.push(error),
  });
  return { pool, maker, logged, image, others };
}

/** a setup that counts how often it was applied */
function setupOf(key: string): MachineSetup & { applied: number } {
  return {
    key,
    applied: 0,
    async apply() {
      this.applied++;
    },
  };
}

describe("a pool", () => {
  test("of no size makes nothing", async () => {
    const { pool, maker } = poolOf({ hot: 0, warm: 0 });
    await pool.full();
    expect(maker.made).toBe(0);
    expect(pool.takeHot("host", "host@1")).toBeUndefined();
    expect(pool.takeWarm()).toBeUndefined();
  });

  test("is filled to its size, hot ones booted and warm ones not", async () => {
    const { pool, maker } = poolOf({ hot: 2, warm: 3 });
    await pool.full();
    expect(maker.made).toBe(5);
    expect(maker.booted).toHaveLength(2);
    expect(maker.rehearsed).toEqual(maker.booted);
    await pool.full();
    expect(maker.made).toBe(5);
  });

  test("fills after a moment without commands, and soon even if commands never stop", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    try {
      const { pool, maker } = poolOf({ hot: 1, warm: 0 });
      pool.fill();
      for (const _ of [1, 2, 3]) {
        await vi.advanceTimersByTimeAsync(15);
        pool.used();
      }
      await vi.advanceTimersByTimeAsync(19);
      expect(maker.made).toBe(0);
      await vi.advanceTimersByTimeAsync(1);
      expect(maker.made).toBe(1);
      pool.takeHot("host", "host@1");
      pool.fill();
      for (let passed = 0; passed < 130; passed += 10) {
        await vi.advanceTimersByTimeAsync(10);
        pool.used();
      }
      expect(maker.made).toBe(2);
    } finally {
      vi.useRealTimers();
    }
  });

  test("gives each prepared machine once, and a hot one only for the root it was booted from", async () => {
    const { pool } = poolOf({ hot: 2, warm: 2 });
    await pool.full();
    expect(pool.takeHot("other", "other@1")).toBeUndefined();
    const taken = [pool.takeHot("host", "host@1"), pool.takeHot("host", "host@1"), pool.takeWarm(), pool.takeWarm()];
    expect(new Set(taken.map((prepared) => prepared?.plan.name)).size).toBe(4);
    expect(pool.takeHot("host", "host@1")).toBeUndefined();
    expect(pool.takeWarm()).toBeUndefined();
  });

  test("passes over a hot one that has died though nobody said so", async () => {
    const { pool, maker } = poolOf({ hot: 2, warm: 0 });
    await pool.full();
    maker.silentlyDead.add("b1");
    expect(pool.takeHot("host", "host@1")?.plan.name).toBe("b2");
    expect(pool.takeHot("host", "host@1")).toBeUndefined();
    expect(maker.discarded).toEqual(["b1"]);
  });

  test("has no hot prepared machines while there is no image to boot from, and makes them once there is", async () => {
    const { pool, maker, image } = poolOf({ hot: 1, warm: 1 });
    image.key = undefined;
    await pool.full();
    expect(maker.booted).toEqual([]);
    expect(maker.made).toBe(1);
    image.key = "host@1";
    await pool.full();
    expect(pool.takeHot("host", "host@1")).toBeDefined();
  });

  test("replaces hot prepared machines when the image has changed", async () => {
    const { pool, maker, image } = poolOf({ hot: 2, warm: 0 });
    await pool.full();
    image.key = "host@2";
    await pool.full();
    expect(maker.discarded).toEqual(["b1", "b2"]);
    expect(pool.takeHot("host", "host@1")).toBeUndefined();
    expect(pool.takeHot("host", "host@2")).toBeDefined();
  });

  test("replaces each hot one by one with the setup that its taker wanted", async () => {
    const { pool } = poolOf({ hot: 2, warm: 0 });
    await pool.full();
    const [one, other] = [setupOf("one"), setupOf("other")];
    expect(pool.takeHot("host", "host@1", one)).toMatchObject({ plan: { name: "b1" } });
    expect(one.applied).toBe(0);
    await pool.full();
    expect(one.applied).toBe(1);
    const again = pool.takeHot("host", "host@1", one);
    expect(again).toMatchObject({ plan: { name: "b3" }, setup: "one" });
    // One without a setup serves every taker, and one with another setup none.
    await pool.full();
    expect(pool.takeHot("host", "host@1")).toMatchObject({ plan: { name: "b2" } });
    expect(pool.takeHot("host", "host@1", other)).toBeUndefined();
  });

  test("makes room for a setup that is wanted when all hot ones have another", async () => {
    const { pool, maker } = poolOf({ hot: 1, warm: 0 });
    await pool.full();
    pool.takeHot("host", "host@1", setupOf("one"));
    await pool.full();
    const wanted = setupOf("other");
    expect(pool.takeHot("host", "host@1", wanted)).toBeUndefined();
    await pool.full();
    expect(maker.discarded).toEqual(["b2"]);
    expect(pool.takeHot("host", "host@1", wanted)).toMatchObject({ plan: { name: "b3" }, setup: "other" });
  });

  test("gives no machine the setup that was wanted for another image", async () => {
    const { pool, image } = poolOf({ hot: 1, warm: 0 });
    await pool.full();
    const setup = setupOf("one");
    pool.takeHot("host", "host@1", setup);
    image.key = "host@2";
    await pool.full();
    expect(setup.applied).toBe(0);
    expect(pool.takeHot("host", "host@2")?.setup).toBeUndefined();
  });

  test("discards a machine whose setup fails, and makes one without it", async () => {
    const { pool, maker, logged } = poolOf({ hot: 1, warm: 0 });
    await pool.full();
    pool.takeHot("host", "host@1", { key: "bad", apply: () => Promise.reject(new Error("no room")) });
    await pool.full();
    expect(logged).toEqual([new Error("no room")]);
    expect(maker.discarded).toEqual(["b2"]);
    await pool.full();
    expect(pool.takeHot("host", "host@1")).toMatchObject({ plan: { name: "b3" } });
    await pool.close();
  });

  describe("with other images in use", () => {
    /** takes one of each image by name */
    const use = (pool: Pool, others: Record<string, string>, ...names: string[]) =>
      names.map((name) => pool.takeHot(name, others[name] ?? "")?.plan.name);

    test("keeps machines of one from its second use on, in at most half of its places", async () => {
      const { pool, maker, others } = poolOf({ hot: 4, warm: 1 });
      others.app = "app@1";
      await pool.full();
      expect(use(pool, others, "app")).toEqual([undefined]);
      await pool.full();
      expect(maker.made).toBe(5);
      expect(pool.references).toEqual(["host@1"]);
      expect(use(pool, others, "app")).toEqual([undefined]);
      await pool.full();
      expect(pool.size).toEqual({ hot: 4, warm: 1 });
      expect(pool.references).toEqual(["host@1", "app@1"]);
      const taken = use(pool, others, "app", "app", "app");
      expect(taken.map((name) => typeof name)).toEqual(["string", "string", "undefined"]);
      const usual = [1, 2, 3].map(() => pool.takeHot("host", "host@1")?.plan.name);
      expect(usual.map((name) => typeof name)).toEqual(["string", "string", "undefined"]);
    });

    test("makes those of the default image and warm ones first, and the image that was not used for longest leaves", async () => {
      const { pool, maker, others } = poolOf({ hot: 4, warm: 1 });
      for (const name of ["a", "b", "c"]) others[name] = `${name}@1`;
      use(pool, others, "a", "b", "a", "b", "c");
      let open: () => void = () => {};
      maker.gate = new Promise((resolve) => {
        open = resolve;
      });
      const filling = pool.full();
      open();
      await filling;
      expect(maker.booted).toEqual(["b1", "b2", "b4", "b5"]);
      expect(pool.references).toEqual(["host@1", "b@1", "a@1"]);
      use(pool, others, "c");
      await pool.full();
      expect(pool.references).toEqual(["host@1", "c@1"]);
      expect(pool.size).toEqual({ hot: 4, warm: 1 });
    });

    test("is the default image's alone where there is only one place", async () => {
      const { pool, others } = poolOf({ hot: 1, warm: 0 });
      others.app = "app@1";
      use(pool, others, "app", "app", "app");
      await pool.full();
      expect(pool.references).toEqual(["host@1"]);
    });

    test("ends machines of an image that was deleted or changed, before its layers are collected", async () => {
      const { pool, maker, others } = poolOf({ hot: 2, warm: 0 });
      others.app = "app@1";
      use(pool, others, "app", "app");
      await pool.full();
      expect(pool.references).toEqual(["host@1", "app@1"]);
      others.app = "app@2";
      await pool.refresh();
      expect(pool.references).toEqual(["host@1"]);
      await pool.full();
      expect(pool.references).toEqual(["host@1", "app@2"]);
      expect(use(pool, { app: "app@1" }, "app")).toEqual([undefined]);
      delete others.app;
      await pool.refresh();
      expect(pool.references).toEqual(["host@1"]);
      expect(maker.discarded).toHaveLength(2);
      await pool.full();
      expect(pool.size.hot).toBe(2);
      // It must be used twice again.
      others.app = "app@1";
      use(pool, others, "app");
      await pool.full();
      expect(pool.references).toEqual(["host@1"]);
    });

    test("does without one whose machines cannot be made", async () => {
      const { pool, maker, others, logged } = poolOf({ hot: 2, warm: 1 });
      await pool.full();
      others.app = "app@1";
      use(pool, others, "app", "app");
      maker.failing = "boot";
      await pool.full();
      expect(logged).toEqual([new Error("no root")]);
      maker.failing = undefined;
      await pool.full();
      expect(pool.references).toEqual(["host@1"]);
      expect(pool.size).toEqual({ hot: 2, warm: 1 });
      others.app = "broken";
      use(pool, others, "app", "app");
      await pool.full();
      expect(logged.at(-1)).toEqual(new Error("its layers are gone"));
      expect(pool.size).toEqual({ hot: 2, warm: 1 });
      await pool.close();
    });

    test("gives all places back to the default image after a while", async () => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
      try {
        const { pool, others } = poolOf({ hot: 2, warm: 0 });
        others.app = "app@1";
        use(pool, others, "app", "app");
        await pool.full();
        expect(pool.references).toEqual(["host@1", "app@1"]);
        await vi.advanceTimersByTimeAsync(recency - 1000);
        expect(pool.references).toEqual(["host@1", "app@1"]);
        await vi.advanceTimersByTimeAsync(2000);
        expect(pool.references).toEqual(["host@1"]);
        expect(pool.size.hot).toBe(2);
        await pool.close();
      } finally {
        vi.useRealTimers();
      }
    });
  });

  test("fills again after one was used, but not while a caller is at work", async () => {
    const { pool, maker } = poolOf({ hot: 0, warm: 1 });
    await pool.full();
    const done = pool.begin();
    pool.takeWarm();
    pool.fill(0);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(maker.made).toBe(1);
    done();
    await eventually("another prepared machine", () => maker.made === 2);
  });

  test("stops filling when a caller comes, and goes on afterwards", async () => {
    const { pool, maker } = poolOf({ hot: 0, warm: 5 });
    let open: () => void = () => {};
    maker.gate = new Promise((resolve) => {
      open = resolve;
    });
    const filling = pool.full();
    const done = pool.begin();
    open();
    await filling;
    expect(maker.made).toBe(1);
    done();
    await eventually("a full pool", () => maker.made === 5);
  });

  test("a prepared machine that cannot be made is told, and nothing is left of it", async () => {
    for (const failing of ["prepare", "boot"] as const) {
      const { pool, maker, logged } = poolOf({ hot: 1, warm: 0 });
      maker.failing = failing;
      await pool.full();
      expect(logged).toHaveLength(1);
      expect(maker.discarded).toHaveLength(failing === "boot" ? 1 : 0);
      expect(pool.takeHot("host", "host@1")).toBeUndefined();
      maker.failing = undefined;
      await pool.full();
      expect(pool.takeHot("host", "host@1")).toBeDefined();
      await pool.close();
    }
  });

  test("a hot prepared machine that dies is given to nobody and made again; one that was taken is the taker's", async () => {
    const { pool, maker } = poolOf({ hot: 2, warm: 0 });
    await pool.full();
    maker.dead.get("b1")?.();
    await eventually("a new prepared machine", () => maker.made === 3);
    const names = [pool.takeHot("host", "host@1"), pool.takeHot("host", "host@1")].map(
      (prepared) => prepared?.plan.name,
    );
    expect(names).toEqual(["b2", "b3"]);
    expect(maker.discarded).toEqual(["b1"]);
    maker.dead.get("b2")?.();
    expect(maker.discarded).toEqual(["b1"]);
    await pool.close();
  });

  test("when the launcher died, prepared machines without a root are dead and booted ones are not", async () => {
    const { pool, maker } = poolOf({ hot: 1, warm: 2 });
    await pool.full();
    const warm = ["b2", "b3"];
    pool.orphaned();
    await eventually("the dead are discarded", () => warm.every((name) => maker.discarded.includes(name)));
    expect(pool.takeWarm()).toBeUndefined();
    expect(pool.takeHot("host", "host@1")?.plan.name).toBe("b1");
  });

  test("closing ends every prepared machine, waits for one that is being made, and nothing is made afterwards", async () => {
    const { pool, maker } = poolOf({ hot: 1, warm: 1 });
    await pool.full();
    pool.takeWarm();
    let open: () => void = () => {};
    maker.gate = new Promise((resolve) => {
      open = resolve;
    });
    const filling = pool.full();
    const closing = pool.close();
    open();
    await Promise.all([filling, closing]);
    expect(maker.discarded.sort()).toEqual(["b1", "b3"]);
    pool.fill(0);
    pool.begin()();
    await pool.full();
    expect(maker.made).toBe(3);
  });
});
