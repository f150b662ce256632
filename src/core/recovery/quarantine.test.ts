/** Tests of items that the database does not know: how long they are kept, and which are deleted at once. */

import { expect, test } from "vitest";
import { sandbox, session, time } from "../../../test/harness/fake-core.ts";
import { buildMachineId } from "../builds/machine-ids.ts";
import type { Context } from "../context.ts";
import type { Description } from "../ports/recovery-files.ts";
import { Descriptions } from "./descriptions.ts";
import { Quarantine } from "./quarantine.ts";

const hour = 3_600_000;
const described = { sandbox, session } as unknown as Description;

function fixture({
  live = {} as Record<string, Description | undefined>,
  snapshots = [] as string[],
  drives = [] as string[],
  ends = {} as Record<string, string>,
} = {}) {
  const done: string[] = [];
  const notices: string[] = [];
  const clock = { now: time };
  let since: Record<string, number> = {};
  const descriptions = new Map(Object.entries(live).map(([id, description]) => [`machine ${id}`, description]));
  const machines = new Map(
    Object.keys(live).map((id) => [
      id,
      { id, stop: async (how?: object) => void done.push(`stop ${id} ${JSON.stringify(how ?? {})}`) },
    ]),
  );
  const there = new Set(snapshots);
  const volumes = new Set(drives);
  // The quarantine uses nothing else.
  const context = {
    store: {
      getSessions: async () => [],
      liveRuntimeSnapshots: async () => [],
      isDeletedSnapshot: async () => false,
      getDrive: async () => undefined,
    },
    runtime: {
      machines: () => [...machines.values()],
      machine: (id: string) => machines.get(id),
      ends: () =>
        Object.entries(ends).map(([machineId, id]) => ({ machineId, endedAt: time - hour, snapshot: { id } })),
      forget: async (id: string) => {
        machines.delete(id);
        done.push(`forget ${id}`);
      },
      snapshots: {
        list: async () => [...there].map((id) => ({ id, createdAt: time - hour })),
        delete: async (id: string) => void there.delete(id),
      },
      drives: { list: async () => [...volumes], delete: async (id: string) => void volumes.delete(id) },
    },
    files: {
      description: (kind: string, id: string) => descriptions.get(`${kind} ${id}`),
      forget: (kind: string, id: string) => void descriptions.delete(`${kind} ${id}`),
      quarantined: () => since,
      setQuarantined: (value: Record<string, number>) => {
        since = value;
      },
    },
    now: () => clock.now,
    limits: { quarantine: 2 * hour },
    notice: (sentence: string) => void notices.push(sentence),
    logError: (error: unknown) => {
      throw error;
    },
  } as unknown as Context;
  const quarantine = new Quarantine(context, new Descriptions(context));
  return { quarantine, clock, done, notices, there, volumes, machines };
}

test("an unknown snapshot stays for the configured time, also across restarts, and is deleted afterwards", async () => {
  const { quarantine, clock, notices, there } = fixture({ snapshots: ["s1"] });
  await quarantine.open({ keepAll: false });
  expect(notices).toEqual([expect.stringContaining("does not know 1 snapshot of the data directory")]);
  clock.now += 2 * hour - 1;
  await quarantine.open({ keepAll: false });
  await quarantine.round();
  expect([...there]).toEqual(["s1"]);
  clock.now += 1;
  await quarantine.open({ keepAll: false });
  expect([...there]).toEqual(["s1"]);
  await quarantine.round();
  expect([...there]).toEqual([]);
});

test("a drive that a killed daemon had half made or half deleted is reported, and deleted when its time is over", async () => {
  const { quarantine, clock, notices, volumes } = fixture({ drives: ["half"] });
  await quarantine.open({ keepAll: false });
  expect(notices).toEqual([expect.stringContaining("does not know 1 drive of the data directory")]);
  await quarantine.round();
  expect([...volumes]).toEqual(["half"]);
  clock.now += 2 * hour;
  await quarantine.round();
  expect([...volumes]).toEqual([]);
});

test("a drive that is being made while the daemon runs stays", async () => {
  const { quarantine, clock, volumes } = fixture();
  await quarantine.open({ keepAll: false });
  volumes.add("new");
  await quarantine.round();
  clock.now += 2 * hour;
  await quarantine.round();
  expect([...volumes]).toEqual(["new"]);
});

test("a machine without a description is stopped at the start; one with a description runs on", async () => {
  const { quarantine, done } = fixture({ live: { half: undefined, whole: described } });
  await quarantine.open({ keepAll: false });
  expect(done).toEqual(["stop half {}", "forget half"]);
});

test("the files of a build's step that a killed daemon left are deleted at the start; those of a sandbox stay", async () => {
  const ends = { [buildMachineId("step", "1f")]: "of-step", [session.id]: "of-sandbox" };
  const { quarantine, notices, there } = fixture({ snapshots: Object.values(ends), ends });
  await quarantine.open({ keepAll: false });
  expect([...there]).toEqual(["of-sandbox"]);
  expect(notices).toEqual([expect.stringContaining("1 snapshot of the data directory")]);
});

test("a directory without descriptions yet keeps all its machines", async () => {
  const { quarantine, done } = fixture({ live: { half: undefined } });
  await quarantine.open({ keepAll: true });
  expect(done).toEqual([]);
});

test("a machine in quarantine stops with a snapshot when its session's time is over", async () => {
  const { quarantine, clock, done } = fixture({ live: { whole: described } });
  await quarantine.round();
  expect(done).toEqual([]);
  clock.now = (session.expiresAt ?? 0) + 1;
  await quarantine.round();
  expect(done).toEqual(['stop whole {"snapshot":true}']);
});
