/** Quotas of teams and keys: what counts, that starts at the same time count too, and who may set them. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import type { Quota, Session } from "../model/sandbox.ts";
import { Quotas } from "./quotas.ts";

const mebibyte = 2 ** 20;
const caller = { teamId: session.teamId, admin: true };

/** of the key that has made the sandbox of `starting` */
const keyId = "key_1";

function fixture(quota: Quota, open: Session[] = [], keyQuotas: Record<string, Quota> = {}) {
  let stored = quota;
  const clock = { now: 0 };
  const store = {
    findTeam: async (id: string) => ({ id, quota: stored }),
    setQuota: async (_: string, changed: Quota) => {
      stored = changed;
    },
    openSessions: async () => open,
    getKey: async (id: string) => ({ id, teamId: session.teamId, quota: keyQuotas[id] }),
    setKeyQuota: async (id: string, changed: Quota) => {
      keyQuotas[id] = changed;
    },
    getSandboxes: async (ids: string[]) => ids.map((id) => ({ id, madeBy: { keyId: `key_of_${id}` } })),
    snapshotBytes: async ({ keyId }: { keyId?: string }) => (keyId === undefined ? 3 : 1) * mebibyte,
  };
  const usage = async () => ({ disk: 2 * mebibyte });
  const runtime = { imageBuilds: { diskOf: async () => mebibyte + 1 }, machine: () => ({ usage }) };
  const context = { store, runtime, now: () => clock.now } as unknown as Context; // quotas use nothing else
  const quotas = new Quotas(context);
  const reserve = (started: Session, options?: { creates: boolean }) =>
    quotas.reserve(started, { madeBy: { keyId } }, options);
  return {
    clock,
    reserve,
    get: quotas.get.bind(quotas),
    set: quotas.set.bind(quotas),
    getOfKey: quotas.getOfKey.bind(quotas),
    setOfKey: quotas.setOfKey.bind(quotas),
    requireDisk: quotas.requireDisk.bind(quotas),
    withImageDisk: quotas.withImageDisk.bind(quotas),
  };
}

const starting = (id: string) => ({ ...session, id, state: "pending" as const });

test("of starts at the same time, those that exceed the quota are refused", async () => {
  const quotas = fixture({ sandboxes: 2 }, [session]);
  const starts = await Promise.allSettled(["a", "b", "c"].map((id) => quotas.reserve(starting(id))));
  expect(starts.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
  expect(starts[1]).toMatchObject({
    reason: {
      code: "limit",
      message:
        'Cannot start a sandbox: the team may use 2 sandboxes at once and uses 2, so this would be more (quota "sandboxes")',
    },
  });
});

test("a start that failed gives its place back, and one that is stored counts once", async () => {
  const open: Session[] = [];
  const quotas = fixture({ sandboxes: 1 }, open);
  (await quotas.reserve(starting("a")))[Symbol.dispose]();
  const second = await quotas.reserve(starting("b"));
  open.push(starting("b"));
  expect((await quotas.get(caller)).use).toEqual({
    sandboxes: 1,
    vcpus: 2,
    memory: 4096,
    createsPerMinute: 0,
    disk: 5,
    imageDisk: 2,
  });
  second[Symbol.dispose]();
  await expect(quotas.reserve(starting("c"))).rejects.toMatchObject({ code: "limit" });
});

test("processors and memory are sums, and sessions of other teams do not count", async () => {
  const quotas = fixture({ vcpus: 4, memory: 8192 }, [session, { ...session, id: "x", teamId: "team_other" }]);
  await quotas.reserve(starting("a"));
  await expect(quotas.reserve(starting("b"))).rejects.toThrow("4 processors at once");
  await quotas.set(caller, { memory: 8192 });
  await expect(quotas.reserve(starting("b"))).rejects.toThrow("8192 MiB of memory at once");
  await quotas.set(caller, {});
  await quotas.reserve(starting("b"));
});

test("creates of the last minute count, also of sandboxes that ended; refused ones and resumes do not", async () => {
  const quotas = fixture({ createsPerMinute: 2 });
  const create = async (id: string) => (await quotas.reserve(starting(id), { creates: true }))[Symbol.dispose]();
  await create("a");
  quotas.clock.now = 30_000;
  const starts = await Promise.allSettled(["b", "c"].map(create));
  expect(starts).toMatchObject([
    { status: "fulfilled" },
    {
      reason: {
        code: "limit",
        message:
          'Cannot create a sandbox: the team may create 2 in a minute and has created 2, so this would be more (quota "createsPerMinute")',
      },
    },
  ]);
  await quotas.reserve(starting("resumed"));
  expect((await quotas.get(caller)).use.createsPerMinute).toBe(2);
  quotas.clock.now = 60_000;
  await create("c");
  await expect(create("d")).rejects.toMatchObject({ code: "limit" });
  // A team without a quota is counted as well, for the one that it may get.
  await quotas.set(caller, {});
  await create("e");
  expect((await quotas.get(caller)).use.createsPerMinute).toBe(3);
});

test("only an admin key sets a quota", async () => {
  const quotas = fixture({});
  await expect(quotas.set({ teamId: session.teamId }, { sandboxes: 1 })).rejects.toMatchObject({ code: "forbidden" });
});

test("of images that are made at the same time, those that exceed the quota are refused", async () => {
  const quotas = fixture({ imageDisk: 2 });
  let used = mebibyte;
  const make = () =>
    quotas.withImageDisk(
      caller.teamId,
      async () => used + mebibyte,
      async () => {
        used += mebibyte;
      },
    );
  const made = await Promise.allSettled([make(), make()]);
  expect(made.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(made[1]).toMatchObject({
    reason: {
      code: "limit",
      message:
        "Cannot make the image: the team's images may use 2 MiB of the disk, and this would be more; delete one first",
    },
  });
  // It limits no start, and a team without it is not measured.
  await quotas.reserve(starting("a"));
  await fixture({}).withImageDisk(
    caller.teamId,
    () => Promise.reject(new Error("measured")),
    async () => undefined,
  );
});

test("a key has a quota of its own, for the sandboxes that it made, besides that of its team", async () => {
  const sandboxId = "s";
  const open = [{ ...session, id: "own", sandboxId }, session];
  const quotas = fixture({ sandboxes: 4 }, open, { key_of_s: { sandboxes: 2 }, [keyId]: { vcpus: 4 } });
  expect(await quotas.getOfKey(caller, "key_of_s")).toEqual({
    quota: { sandboxes: 2 },
    use: { sandboxes: 1, vcpus: 2, memory: 4096, createsPerMinute: 0, disk: 3 },
  });
  const starts = await Promise.allSettled(["a", "b", "c"].map((id) => quotas.reserve(starting(id), { creates: true })));
  expect(starts.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
  await quotas.setOfKey(caller, keyId, { vcpus: 2 });
  await expect(quotas.reserve(starting("d"))).rejects.toThrow("the team may use 4 sandboxes at once and uses 4");
  await quotas.set(caller, {});
  await expect(quotas.reserve(starting("d"))).rejects.toThrow(
    'key "key_1" may use 2 processors at once and uses 4, so this would be more (quota "vcpus")',
  );
  await quotas.setOfKey(caller, keyId, { createsPerMinute: 2 });
  await expect(quotas.reserve(starting("d"), { creates: true })).rejects.toThrow("has created 2");
});

test("a team or a key that uses all of its disk starts nothing and makes no snapshot", async () => {
  const quotas = fixture({ disk: 6 }, [session]);
  await quotas.reserve(starting("a"));
  await quotas.set(caller, { disk: 5 });
  const refusal = "the team may use 5 MiB with its sandboxes and snapshots and uses 7";
  await expect(quotas.reserve(starting("b"))).rejects.toThrow(refusal);
  await expect(quotas.requireDisk(session)).rejects.toThrow(refusal);
  await quotas.set(caller, {});
  await quotas.requireDisk(session);
  await quotas.setOfKey(caller, `key_of_${session.sandboxId}`, { disk: 3 });
  await expect(quotas.requireDisk(session)).rejects.toMatchObject({ code: "limit" });
});

test("a limited key sees its own quota only, and sets none", async () => {
  const quotas = fixture({}, [], { [keyId]: { sandboxes: 1 } });
  const limited = { teamId: session.teamId, keyId, scope: { readOnly: true } };
  expect((await quotas.getOfKey(limited, keyId)).quota).toEqual({ sandboxes: 1 });
  await expect(quotas.getOfKey(limited, "key_2")).rejects.toMatchObject({ code: "forbidden" });
  await expect(quotas.setOfKey(limited, keyId, {})).rejects.toMatchObject({ code: "forbidden" });
  await expect(quotas.getOfKey({ teamId: "team_other" }, keyId)).rejects.toMatchObject({ code: "not-found" });
});
