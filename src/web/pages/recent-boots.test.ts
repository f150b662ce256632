/** The last hour of a project, from its sessions. */

import { expect, test } from "vitest";
import { recentBoots } from "./recent-boots.ts";

const minute = 60_000;
const now = 1000 * minute;
const session = (startedAt: number | null, endedAt: number | null = null, boot = 5) => ({
  createdAt: (startedAt ?? now) - boot,
  startedAt,
  endedAt,
});

test("each minute has the sessions that ran in it, those that began in it, and boots have a median", () => {
  const { running, boots, p50 } = recentBoots(
    [
      session(now - 0.5 * minute, null, 4),
      session(now - 1.5 * minute, now - 0.5 * minute, 90),
      session(now - 1.2 * minute, now - 1.1 * minute, 7),
      session(now - 500 * minute, null, 1),
      session(now - 500 * minute, now - 400 * minute, 1),
      session(null),
    ],
    true,
    now,
  );
  expect(running).toHaveLength(60);
  expect(running.slice(-3)).toEqual([1, 3, 3]);
  expect(boots.slice(-3)).toEqual([0, 2, 1]);
  expect(p50).toBe(7);
});

test("where there are more sessions than these, it goes back only as far as they do", () => {
  const { running, boots } = recentBoots([session(now - 0.5 * minute), session(now - 3 * minute)], false, now);
  expect([running, boots]).toEqual([
    [1, 1, 2],
    [1, 0, 1],
  ]);
  expect(recentBoots([], true, now)).toMatchObject({ p50: undefined });
});
