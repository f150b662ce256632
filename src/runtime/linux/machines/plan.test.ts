/** Plans: what a machine will be made of, and what is refused before anything is made. */

import { describe, expect, test } from "vitest";
import type { Limits, MachineSpec } from "../../../core/ports/runtime.ts";
import { findCgroups } from "../host/cgroup.ts";
import {
  checkLimits,
  checkSpec,
  idsPerMachine,
  isPlainName,
  isTerminalSize,
  places,
  planActivate,
  planMachine,
  planPrepare,
  shownCpus,
  slotOf,
  slots,
} from "./plan.ts";

const v2 = findCgroups("30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", () => "cpu memory pids");
const limits: Limits = { vcpus: 2, memory: 1 << 30, pids: 100, disk: 1 << 30 };
const spec: MachineSpec = { id: "m", root: { image: "host" } };
const here = places("/data", "/run/sandkeep");

describe("places", () => {
  test("are below the two folders that were given, and differ with the data directory", () => {
    const other = places("/other", "/run/sandkeep");
    expect(here.store).toBe("/data/store");
    expect(here.machines).toBe("/data/store/machines");
    expect(here.run.startsWith("/run/sandkeep/")).toBe(true);
    expect(here.run).not.toBe(other.run);
    expect(here.cgroupParent).not.toBe(other.cgroupParent);
    expect(places("/data", "/elsewhere").cgroupParent).toBe(here.cgroupParent);
  });

  test("leave room for a socket's name, which the kernel bounds at 107 characters", () => {
    const { socket } = planMachine(places("/data", "/run/sandkeep-test-abcdef"), v2, `m${"f".repeat(16)}`, 0);
    expect(socket.length).toBeLessThan(108);
  });
});

describe("a prepared machine", () => {
  test("names everything that will be made, for the ledger", () => {
    const plan = planMachine(here, v2, "m1", 5);
    const names = new Map(plan.resources.map((resource) => [resource.kind, resource.name]));
    expect(names.get("directory")).toBe(plan.folder);
    expect(names.get("socket")).toBe(plan.socket);
    expect(names.get("namespace")).toBe("m1");
    expect(names.get("cgroup")).toBe(plan.cgroup.memory);
    for (const path of [plan.volume, plan.journal]) expect(path.startsWith(`${plan.folder}/`)).toBe(true);
  });

  test("has ids of its own: ranges never overlap and never leave 32 bits", () => {
    const bases = [0, 1, 2, slots - 1].map((slot) => planMachine(here, v2, "m", slot).base);
    for (const [n, base] of bases.entries()) {
      expect(base % idsPerMachine).toBe(0);
      expect(base).toBeGreaterThan(1_000_000_000);
      expect(base + idsPerMachine).toBeLessThan(2 ** 32 - 1);
      for (const other of bases.slice(n + 1)) expect(Math.abs(base - other)).toBeGreaterThanOrEqual(idsPerMachine);
    }
  });

  test("its slot is found again from its ids", () => {
    for (const slot of [0, 7, slots - 1]) expect(slotOf(planMachine(here, v2, "m", slot))).toBe(slot);
  });
});

describe("the launcher's orders", () => {
  const prepared = planMachine(here, v2, "m1", 5);

  test("to prepare: on v2 the kernel puts the first process into its cgroup, so none is joined", () => {
    expect(planPrepare(prepared, "deny-all")).toMatchObject({
      name: "m1",
      base: prepared.base,
      network: "deny-all",
      unified: prepared.cgroup.unified,
      cgroups: [],
      memoryEvents: `${prepared.cgroup.memory}/memory.events`,
    });
  });

  test("to activate: no new privileges without sudo, memory for files is half of all memory", () => {
    const root = { layers: ["/a", "/b"], limits, sudo: false, hostCpus: 8, mounts: [] };
    expect(planActivate(prepared, root)).toMatchObject({
      layers: ["/a", "/b"],
      volume: prepared.volume,
      noNewPrivileges: true,
      cpus: 2,
      sharedMemory: 512 << 20,
    });
    expect(planActivate(prepared, { ...root, sudo: true }).noNewPrivileges).toBe(false);
  });

  test.each([
    [0.1, 4, 1],
    [1, 4, 1],
    [1.5, 4, 2],
    [4, 4, 0],
    [16, 4, 0],
  ])("%d processors of time on a host with %d: programs see %d (0 is all)", (vcpus, hostCpus, shown) => {
    expect(shownCpus({ ...limits, vcpus }, hostCpus)).toBe(shown);
  });
});

describe("what callers want", () => {
  test("is filled with defaults", () => {
    expect(checkSpec({ ...spec, limits: { vcpus: 1 } }, limits)).toMatchObject({
      id: "m",
      limits: { ...limits, vcpus: 1 },
      network: "allow-all",
      sudo: true,
    });
  });

  test("a limit that is undefined is not given", () => {
    const given = { memory: undefined } as unknown as Partial<Limits>;
    expect(checkSpec({ ...spec, limits: given }, limits).limits.memory).toBe(limits.memory);
  });

  test.each(["", "a b", "a/b", "..", ".", "a.b", "ü", "x".repeat(65), "a\n", "\0"])("the id %j is refused", (id) => {
    expect(isPlainName(id)).toBe(false);
    expect(() => checkSpec({ ...spec, id }, limits)).toThrowError(expect.objectContaining({ code: "invalid" }));
  });

  test.each(["a", "A-b_9", "x".repeat(64), "-", "__proto__"])("the id %j is fine", (id) => {
    expect(checkSpec({ ...spec, id }, limits).id).toBe(id);
  });

  test.each([[{ vcpus: 0.01 }], [{ vcpus: 0.3 }], [{ memory: 16 << 20 }], [{ pids: 8 }], [{ disk: 4 << 20 }], [{}]])(
    "limits of %j are fine",
    (given) => {
      expect(() => checkLimits(given)).not.toThrow();
    },
  );

  test.each([
    [{ vcpus: 0 }],
    [{ vcpus: Number.NaN }],
    [{ vcpus: "2" as unknown as number }],
    [{ memory: (16 << 20) - 1 }],
    [{ memory: 2 ** 30 + 0.5 }],
    [{ memory: Number.POSITIVE_INFINITY }],
    [{ pids: 7 }],
    [{ disk: -1 }],
    [{ toString: 1 }],
  ])("limits of %j are refused", (given) => {
    expect(() => checkLimits(given as Partial<Limits>)).toThrowError(expect.objectContaining({ code: "invalid" }));
  });

  test("a terminal has whole rows and columns that fit 16 bits", () => {
    expect(isTerminalSize({ rows: 0, columns: 65_535 })).toBe(true);
    for (const wrong of [-1, 65_536, 1.5, Number.NaN]) {
      expect(isTerminalSize({ rows: wrong, columns: 80 })).toBe(false);
      expect(isTerminalSize({ rows: 24, columns: wrong })).toBe(false);
    }
  });
});
