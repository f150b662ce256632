/** Drives whose files are at hand: how many at a time, and that each gives up its place. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import type { Machine } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { Drives } from "./drives.ts";

test("a team has four drives open at a time, others of it wait, and those of another team do not", async () => {
  let [count, booted, refuses] = [0, 0, false];
  // Only what opening asks of them is there.
  const context = {
    runtime: { machine: () => undefined, forget: async () => undefined, boot: async () => ({ files: () => ({}) }) },
    store: { getDrive: async (id: string) => ({ id, projectId: "prj" }) },
    ids: { session: () => ({ id: `sbx_${++count}` }) },
    logError: () => undefined,
  } as unknown as Context;
  const drives = new Drives(context, {} as Descriptions, async (_, boot): Promise<Machine> => {
    if (refuses) throw new Error("too many");
    booted++;
    return boot();
  });
  const open = (teamId: string) => drives.open({ teamId, projectId: "prj" }, "drive");
  const four = await Promise.all(Array.from({ length: 4 }, () => open("team_a")));
  const fifth = open("team_a");
  const left = new AbortController();
  const many = Array.from({ length: 300 }, () =>
    drives.open({ teamId: "team_a", projectId: "prj" }, "drive", { signal: left.signal }).catch(({ code }) => code),
  );
  expect(await Promise.race(many)).toBe("limit");
  left.abort();
  expect(new Set(await Promise.all(many))).toEqual(new Set(["limit", "gone"]));
  await open("team_b");
  expect(booted).toBe(5);
  await four[0]?.close();
  await fifth;
  expect(booted).toBe(6);
  // One that is refused gives up its place as well.
  refuses = true;
  await four[1]?.close();
  await expect(open("team_a")).rejects.toThrow("too many");
  refuses = false;
  await open("team_a");
  expect(booted).toBe(7);
});

test("who changed the files of a drive is answered once the disk has them, and gets the disk's error", async () => {
  const synced: string[] = [];
  let error: Error | undefined;
  const sync = async (id: string) => {
    synced.push(id);
    if (error) throw error;
  };
  const machine = { files: () => ({}), stop: async () => synced.push("stopped") };
  // Only what opening asks of them is there.
  const context = {
    runtime: { machine: () => machine, forget: async () => undefined, boot: async () => machine, drives: { sync } },
    store: { getDrive: async (id: string) => ({ id, projectId: "prj" }) },
    ids: { session: () => ({ id: "sbx_1" }) },
    logError: () => undefined,
  } as unknown as Context;
  const drives = new Drives(context, {} as Descriptions, (_, boot) => boot());
  const open = (write: boolean) => drives.open({ teamId: "team_a", projectId: "prj" }, "drive", { write });
  await (await open(false)).close();
  expect(synced).toEqual(["stopped"]);
  await (await open(true)).close();
  expect(synced).toEqual(["stopped", "stopped", "drive"]);
  error = new Error("the disk is gone");
  for (let count = 0; count < 5; count++) await expect((await open(true)).close()).rejects.toThrow("the disk is gone");
});
