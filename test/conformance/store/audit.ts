/** The audit: pages by time, of one team or all, and the deletion of its oldest entries. */

import { describe, expect, test } from "vitest";
import type { AuditEntry } from "../../../src/core/model/audit.ts";
import type { AuditQuery } from "../../../src/core/ports/audit-records.ts";
import type { Store } from "../../../src/core/ports/store.ts";
import { freshStore, noon, type StoreHost } from "./host.ts";

/** two entries of each ms */
function entry(number: number, teamId = "team_1"): AuditEntry {
  const id = `aud_${teamId}${String(number).padStart(4, "0")}`;
  return { id, at: noon + Math.floor(number / 2), teamId, action: "session.stop", outcome: "done" };
}

const entries = (count: number, teamId?: string) => Array.from({ length: count }, (_, number) => entry(number, teamId));

async function listed(store: Store, query: { teamId?: string; order?: "asc" | "desc" } = {}): Promise<AuditEntry[]> {
  const all: AuditEntry[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = { order: "asc" as const, limit: 3, ...query, ...(cursor !== undefined && { cursor }) };
    const { items, next } = await store.listAudit(page);
    all.push(...items);
    if (next === undefined) return all;
    cursor = next;
  }
}

export function auditSuite(host: () => StoreHost): void {
  describe("the audit", () => {
    test("entries come back as they were, once, by time and in pages, of one team or of all", async () => {
      const store = await freshStore(host());
      const origin = { projectId: "prj_1", keyId: "key_1", wire: "some", address: "2001:db8::1" };
      const whole: AuditEntry = { ...entry(7), ...origin, target: "/ü/🏖", sessionId: "sbx_1", outcome: "not-found" };
      await store.addAudit([...entries(7), whole]);
      await store.addAudit([whole, ...entries(2, "team_2")]);
      expect(await listed(store, { teamId: "team_1" })).toEqual([...entries(7), whole]);
      expect(await listed(store, { teamId: "team_1", order: "desc" })).toEqual([...entries(7), whole].reverse());
      expect(await listed(store)).toHaveLength(10);
    });

    test("any number of entries is stored at once, in order, and again without harm", async () => {
      const store = await freshStore(host());
      await store.addAudit([]);
      const many = entries(45);
      await store.addAudit(many.slice(0, 21));
      await store.addAudit(many);
      expect(await listed(store)).toEqual(many);
    });

    test("a target that an engine cannot store does not lose its entry", async () => {
      const store = await freshStore(host());
      await store.addAudit([{ ...entry(0), target: "/a\0b\ud800" }]);
      expect((await listed(store))[0]?.target).toMatch(/^\/a.+b.+$/);
    });

    test("entries are selected by actions, key, target, outcome and time, in pages and all together", async () => {
      const store = await freshStore(host());
      const of = (number: number, more: Partial<AuditEntry>): AuditEntry => ({ ...entry(number), ...more });
      const all = [
        of(0, { action: "sandbox.create", keyId: "key_1", target: "demo" }),
        of(1, { action: "sandbox.delete", keyId: "key_2", target: "demo", outcome: "forbidden" }),
        of(2, { action: "sandbox.delete", keyId: "key_1", target: "other" }),
        of(3, { action: "sandbox-like.create", keyId: "key_1", target: "demo", outcome: "limit" }),
        of(4, { action: "key.delete", keyId: "key_2", target: "key_1" }),
      ];
      await store.addAudit([
        ...all,
        { ...entry(9, "team_2"), action: "sandbox.create", keyId: "key_1", target: "demo" },
      ]);
      const found = async (query: Partial<AuditQuery>, limit = 1) => {
        const numbers: number[] = [];
        for (let cursor: string | undefined; ; ) {
          const page = { order: "asc" as const, limit, teamId: "team_1", ...query, ...(cursor && { cursor }) };
          const { items, next } = await store.listAudit(page);
          numbers.push(...items.map(({ id }) => all.findIndex((each) => each.id === id)));
          if (next === undefined) return numbers;
          cursor = next;
        }
      };
      expect(await found({ actions: ["sandbox.delete"] })).toEqual([1, 2]);
      expect(await found({ actions: ["sandbox.create", "sandbox.delete"] })).toEqual([0, 1, 2]);
      expect(await found({ actions: ["key.delete", "sandbox.delete"], order: "desc" }, 2)).toEqual([4, 2, 1]);
      expect(await found({ actions: ["sandbox"] })).toEqual([]);
      expect(await found({ keyId: "key_2" })).toEqual([1, 4]);
      expect(await found({ target: "demo", order: "desc" })).toEqual([3, 1, 0]);
      expect(await found({ outcome: "done" })).toEqual([0, 2, 4]);
      expect(await found({ outcome: "failed" })).toEqual([1, 3]);
      expect(await found({ outcome: "limit" })).toEqual([3]);
      expect(await found({ from: noon + 1, to: noon + 1 })).toEqual([2, 3]);
      expect(await found({ actions: ["sandbox.create"], keyId: "key_1", target: "demo", outcome: "done" })).toEqual([
        0,
      ]);
      expect((await store.listAudit({ order: "asc", limit: 9, target: "demo" })).items).toHaveLength(4);
      // A cursor belongs to one selection.
      const { next } = await store.listAudit({ order: "asc", limit: 1, teamId: "team_1", target: "demo" });
      const other = { order: "asc" as const, limit: 1, teamId: "team_1", ...(next && { cursor: next }) };
      await expect(store.listAudit(other)).rejects.toThrow("another sort or filter");
    });

    test("entries that are too old or too many go, the oldest first and some at a time", async () => {
      const store = await freshStore(host());
      await store.addAudit([...entries(10), ...entries(10, "team_2")]);
      const rule = { teamId: "team_1", limit: 2 };
      expect(await store.pruneAudit({ ...rule, from: noon })).toBe(0);
      expect(await store.pruneAudit({ ...rule, newest: 10 })).toBe(0);
      expect(await store.pruneAudit({ ...rule, newest: 7 })).toBe(2);
      expect(await store.pruneAudit({ ...rule, newest: 7 })).toBe(1);
      expect(await listed(store, { teamId: "team_1" })).toEqual(entries(10).slice(3));
      expect(await store.pruneAudit({ ...rule, from: noon + 2, newest: 7 })).toBe(1);
      expect(await store.pruneAudit({ ...rule, from: noon + 2, newest: 5 })).toBe(1);
      expect(await listed(store, { teamId: "team_1" })).toEqual(entries(10).slice(5));
      expect(await listed(store, { teamId: "team_2" })).toHaveLength(10);
    });
  });
}
