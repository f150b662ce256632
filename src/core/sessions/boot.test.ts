/** Tests of boots: how many may run at once, the error for an unavailable drive, and what a failed boot leaves. */

import { expect, test } from "vitest";
import { sandbox, session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { Events } from "../events/events.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Machine } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { Boots } from "./boot.ts";
import { Transitions } from "./transitions.ts";

const pending = { ...session, state: "pending" as const };

/** machines boot only after open() is called */
function fixture({ drives = [] as string[], lost = 0, imageCwd = session.cwd } = {}) {
  const states = new Map<string, string>();
  const machines = new Map<string, Machine>();
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  // A boot uses nothing else of them.
  const runtime = {
    machines: () => [...machines.values()],
    machine: (id: string) => machines.get(id),
    requireRoom: () => undefined,
    forget: async () => undefined,
    images: { get: async () => ({ layers: ["one"], cwd: imageCwd, user: session.user }) },
    boot: async ({ id }: { id: string }) => {
      await opened;
      const files = () => ({ together: () => Promise.reject(new SandkeepError("invalid", "There is no such user")) });
      const machine = { id, files, stop: async () => void machines.delete(id) } as unknown as Machine;
      machines.set(id, machine);
      return machine;
    },
  };
  const moveSession = async (id: string, from: string[], to: string) => {
    if (!from.includes(states.get(id) ?? "pending")) return undefined;
    states.set(id, to);
    if (to === "running" && lost-- > 0) throw new SandkeepError("unavailable", "The answer was lost");
    return { ...pending, id, state: to };
  };
  const store = {
    moveSession,
    endSession: moveSession,
    attachDrive: async () => false,
    getDrive: async (id: string) => (drives.includes(id) ? { id } : undefined),
    detachDrives: async () => undefined,
  };
  const limits = { maxSandboxes: 2, maxTimeout: 1e9, disk: 1 };
  const events = new Events({ run: "run", now: () => 0 });
  const context = { runtime, store, events, limits, now: () => 0, logError: () => undefined } as unknown as Context;
  const descriptions = { machine: async () => undefined, forgetMachine: async () => undefined };
  const boots = new Boots(context, new Transitions(context), descriptions as unknown as Descriptions, () => undefined);
  const boot = (id: string, mounts = sandbox.mounts, failed?: () => Promise<unknown>) =>
    boots.boot({ ...sandbox, mounts }, { ...pending, id }, { root: { image: "host" }, ...(failed && { failed }) });
  return { boots, boot, open, states, machines };
}

test("boots under way count, so that concurrent creates do not exceed the limit", async () => {
  const { boots, boot, open } = fixture();
  const first = [boot("sbx_1"), boot("sbx_2")];
  expect(() => boots.requireRoom()).toThrow("Cannot start a sandbox: 2 run or are paused already, and no more may");
  await expect(boot("sbx_3")).rejects.toMatchObject({ code: "limit" });
  open();
  await Promise.all(first);
  expect(() => boots.requireRoom()).toThrow("Cannot start a sandbox: 2 run or are paused already, and no more may");
});

test("machines of no session count among the others while they boot, and are refused like them", async () => {
  const { boots, boot, open } = fixture();
  const { promise, resolve } = Promise.withResolvers<Machine>();
  const other = boots.bootOther("sbx_1", () => promise);
  const second = boot("sbx_2");
  expect(() => boots.requireRoom()).toThrow("2 run or are paused already");
  await expect(boots.bootOther("sbx_3", () => promise)).rejects.toMatchObject({ code: "limit" });
  resolve({} as Machine);
  await other;
  expect(() => boots.requireRoom()).not.toThrow();
  open();
  await second;
});

test("a session that is on record as running, though the answer was lost, runs", async () => {
  const { boot, open, states } = fixture({ lost: 1 });
  open();
  expect(await boot("sbx_1")).toMatchObject({ state: "running" });
  expect(states.get("sbx_1")).toBe("running");
});

test("a session whose answers are lost repeatedly is not left running without its machine", async () => {
  const { boot, open, states, machines } = fixture({ lost: 2 });
  open();
  await expect(boot("sbx_1")).rejects.toMatchObject({ code: "unavailable" });
  expect(states.get("sbx_1")).toBe("failed");
  expect(machines.size).toBe(0);
});

test("a failed create deletes its sandbox while the session is pending, and retries until it is gone", async () => {
  const { boot, open, states } = fixture({ lost: 2 });
  open();
  const seen: (string | undefined)[] = [];
  const failed = async () => {
    seen.push(states.get("sbx_1"));
    if (seen.length === 1) throw new SandkeepError("unavailable", "The database is away");
  };
  await expect(boot("sbx_1", sandbox.mounts, failed)).rejects.toThrow("The answer was lost");
  await expect.poll(() => states.get("sbx_1")).toBe("failed");
  expect(seen).not.toContain("failed");
  expect(seen).toHaveLength(2);
});

test.each([
  ["is written to by another session", "read-write", ["drv_1"], "conflict", "another session writes to it"],
  ["was deleted", "read-write", [], "invalid", "it was deleted"],
  ["was deleted and was only read", "snapshot", [], "invalid", "it was deleted"],
] as const)("a drive that %s makes the boot fail with that reason", async (_, mode, drives, code, message) => {
  const { boot } = fixture({ drives: [...drives] });
  const mounts = { "/data": { drive: "data", driveId: "drv_1", mode } };
  await expect(boot("sbx_1", mounts)).rejects.toMatchObject({
    code,
    message: `Cannot mount drive "data": ${message}`,
  });
});

test("a machine whose user cannot be set up is stopped, and its session has failed", async () => {
  const { boot, open, machines, states } = fixture({ imageCwd: "/elsewhere" });
  open();
  await expect(boot("one")).rejects.toThrow("There is no such user");
  expect([...machines.keys()]).toEqual([]);
  expect(states.get("one")).toBe("failed");
});
