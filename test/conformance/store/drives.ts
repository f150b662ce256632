/** Drives: unique by name within a project, and attached to one session at a time. */

import { describe, expect, test } from "vitest";
import { driveOf, newOwner, noon, type StoreHost, unique } from "./host.ts";

export function drivesSuite(host: () => StoreHost): void {
  describe("drives", () => {
    test("every field of a drive comes back as it was, in its project only", async () => {
      const { store } = host();
      const [owner, stranger] = [await newOwner(store), await newOwner(store)];
      const drive = driveOf(owner, { name: "données", parentId: "drv_parent", rootId: "drv_root" });
      await store.insertDrive(drive);
      expect(await store.findDrive(owner.projectId, "données")).toStrictEqual(drive);
      expect(await store.findDrive(stranger.projectId, "données")).toBeUndefined();
    });

    test("of many parallel creates of one name, one succeeds", async () => {
      const { store } = host();
      const [owner, stranger] = [await newOwner(store), await newOwner(store)];
      const create = () => store.insertDrive(driveOf(owner, { name: "data" }));
      const outcomes = await Promise.allSettled([create(), create(), create()]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
      await expect(create()).rejects.toMatchObject({ code: "exists", message: expect.stringContaining("data") });
      await store.insertDrive(driveOf(stranger, { name: "data" }));
    });

    test("of many sessions that attach one drive at once, one succeeds; the same one may attach it again", async () => {
      const { store } = host();
      const drive = driveOf(await newOwner(store));
      await store.insertDrive(drive);
      const sessions = Array.from({ length: 6 }, () => unique("sbx_"));
      const won = await Promise.all(sessions.map((id) => store.attachDrive(drive.id, id, `of ${id}`, noon + 1)));
      expect(won.filter(Boolean)).toHaveLength(1);
      const winner = sessions[won.indexOf(true)] ?? "";
      const attached = { ...drive, sessionId: winner, sandboxName: `of ${winner}`, updatedAt: noon + 1 };
      expect(await store.findDrive(drive.projectId, drive.name)).toStrictEqual(attached);
      expect(await store.attachDrive(drive.id, winner, `of ${winner}`, noon + 2)).toBe(true);
      expect(await store.attachDrive("drv_none", winner, "x", noon)).toBe(false);
    });

    test("a session that ends releases all its drives and no others", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const [session, other] = [unique("sbx_"), unique("sbx_")];
      const [one, two, theirs] = [driveOf(owner), driveOf(owner), driveOf(owner)];
      for (const drive of [one, two, theirs]) {
        await store.insertDrive(drive);
        await store.attachDrive(drive.id, drive === theirs ? other : session, "name", noon + 1);
      }
      await store.detachDrives(session, noon + 2);
      expect(await store.findDrive(owner.projectId, one.name)).toStrictEqual({ ...one, updatedAt: noon + 2 });
      expect(await store.findDrive(owner.projectId, two.name)).toStrictEqual({ ...two, updatedAt: noon + 2 });
      expect(await store.findDrive(owner.projectId, theirs.name)).toMatchObject({ sessionId: other });
    });

    test("a drive is found by its id, and its size may change", async () => {
      const { store } = host();
      const drive = driveOf(await newOwner(store));
      await store.insertDrive(drive);
      expect(await store.getDrive(drive.id)).toStrictEqual(drive);
      const larger = { maxSizeBytes: drive.maxSizeBytes + 1, updatedAt: noon + 1 };
      expect(await store.updateDrive(drive.id, larger)).toStrictEqual({ ...drive, ...larger });
      expect(await store.findDrive(drive.projectId, drive.name)).toStrictEqual({ ...drive, ...larger });
      expect(await store.getDrive("drv_none")).toBeUndefined();
      expect(await store.updateDrive("drv_none", larger)).toBeUndefined();
    });

    test("a drive is deleted once, and not while it is attached", async () => {
      const { store } = host();
      const drive = driveOf(await newOwner(store));
      await store.insertDrive(drive);
      await store.attachDrive(drive.id, "sbx_writer", "name", noon);
      expect(await store.deleteDrive(drive.id)).toBe(false);
      await store.detachDrives("sbx_writer", noon);
      const outcomes = await Promise.all([store.deleteDrive(drive.id), store.deleteDrive(drive.id)]);
      expect(outcomes.toSorted()).toEqual([false, true]);
      expect(await store.findDrive(drive.projectId, drive.name)).toBeUndefined();
      expect(await store.attachDrive(drive.id, "sbx_x", "name", noon)).toBe(false);
      await store.insertDrive(driveOf(drive, { name: drive.name }));
    });

    test("a drive is either attached or deleted when both are requested at once", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      for (let round = 0; round < 10; round++) {
        const drive = driveOf(owner);
        await store.insertDrive(drive);
        const [attached, deleted] = await Promise.all([
          store.attachDrive(drive.id, "sbx_racer", "name", noon),
          store.deleteDrive(drive.id),
        ]);
        expect(attached).toBe(!deleted);
      }
    });
  });
}
