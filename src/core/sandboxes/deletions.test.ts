/** Deletions: when a caller gets the answer, and what waits for the end of a machine. */

import { expect, test } from "vitest";
import { sandbox, session } from "../../../test/harness/fake-core.ts";
import { SandkeepError } from "../model/errors.ts";
import { Deletions } from "./deletions.ts";

/** `end()` lets the machine end */
function fixture({ refusal }: { refusal?: Error } = {}) {
  const steps: string[] = [];
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const store = {
    async deleteSandbox() {
      if (refusal) throw refusal;
      steps.push("recorded");
    },
    getSandbox: async () => sandbox,
    getSession: async () => session,
    snapshotsOf: async () => [],
  };
  const endings = {
    async discard() {
      await ended;
      steps.push("ended");
      return { session };
    },
  };
  const context = {
    store,
    now: () => 0,
    events: { publish: () => undefined },
    logError: () => void steps.push("logged"),
  };
  const turns = { run: (_: string, work: () => Promise<unknown>) => work() };
  const retention = { forget: async () => undefined };
  const boots = { settled: async () => undefined };
  const parts = { context, boots, endings, retention, turns } as unknown as ConstructorParameters<typeof Deletions>[0]; // it uses nothing else
  return { deletions: new Deletions(parts), steps, end };
}

test("an early answer comes when the deletion is on record, any other when the machine has ended", async () => {
  const { deletions, steps, end } = fixture();
  await deletions.delete(session, sandbox, { early: true });
  expect(steps).toEqual(["recorded"]);
  const whole = deletions.delete(session, sandbox, {}).then(() => steps.push("answered"));
  end();
  await whole;
  expect(steps).toEqual(["recorded", "recorded", "ended", "ended", "answered"]);
});

test("a sandbox with a drive is never deleted early: its drive is free when the machine has ended", async () => {
  const { deletions, steps, end } = fixture();
  const mounts = { "/data": { driveId: "drive_1", drive: "data", mode: "read-write" as const } };
  const deleted = deletions.delete(session, { ...sandbox, mounts }, { early: true }).then(() => steps.push("answered"));
  end();
  await deleted;
  expect(steps).toEqual(["recorded", "ended", "answered"]);
});

test("a deletion that cannot be recorded is refused", async () => {
  const { deletions } = fixture({ refusal: new SandkeepError("unavailable", "The database is away") });
  await expect(deletions.delete(session, sandbox, { early: true })).rejects.toThrow("The database is away");
});

test("a start that finds no room waits for machines that end, and is refused if that does not help", async () => {
  const { deletions, steps, end } = fixture();
  const full = new SandkeepError("limit", "Cannot start a sandbox: no more may run");
  const start = async () => {
    if (!steps.includes("ended")) throw full;
    return "started";
  };
  await expect(deletions.whenThereIsRoom(start)).rejects.toBe(full);
  await deletions.delete(session, sandbox, { early: true });
  const started = deletions.whenThereIsRoom(start);
  end();
  expect(await started).toBe("started");
  await expect(deletions.whenThereIsRoom(() => Promise.reject(full))).rejects.toBe(full);
});
