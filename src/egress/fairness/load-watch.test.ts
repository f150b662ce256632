/** Who is held while the process is under load, by a clock of the test's own. */

import { expect, test } from "vitest";
import { LoadWatch, type Watched } from "./load-watch.ts";

test("the connection that keeps the process busy is held until its machine's turn; one of little use is not", async () => {
  const { load, pass } = clocked();
  const hostile = payer({ free: false });
  const flood = connection();
  const small = connection();
  load.watch(flood.watched, hostile);
  load.watch(small.watched, hostile);
  pass({ active: 10 });
  flood.bytes += 1_000_000;
  small.bytes += 100;
  expect([flood.state, small.state]).toEqual(["read", "read"]);
  pass({ active: 10 });
  expect([flood.state, small.state]).toEqual(["held", "read"]);
  expect(hostile.waiting).toHaveLength(1);
  hostile.waiting[0]?.();
  await Promise.resolve();
  expect(flood.state).toBe("read");
});

test("nobody is held while there is time, nor a machine that has done little", () => {
  const { load, pass } = clocked();
  const flood = connection();
  const light = connection();
  load.watch(light.watched, payer({ free: true }));
  load.watch(flood.watched, payer({ free: false }));
  for (let i = 0; i < 10; i++) {
    flood.bytes += 1_000_000;
    pass({ active: 10, idle: 20 });
  }
  expect(flood.state).toBe("read");
  for (let i = 0; i < 10; i++) {
    light.bytes += 1_000_000;
    pass({ active: 10 });
  }
  expect([flood.state, light.state]).toEqual(["read", "read"]);
});

test("a connection that has gone while it was held is left alone", async () => {
  const { load, pass } = clocked();
  const hostile = payer({ free: false });
  const flood = connection();
  const unwatch = load.watch(flood.watched, hostile);
  pass({ active: 10 });
  flood.bytes += 1_000_000;
  pass({ active: 10 });
  unwatch();
  hostile.waiting[0]?.();
  await Promise.resolve();
  expect(flood.state).toBe("held");
});

function connection() {
  const made = { bytes: 0, state: "read" };
  const watched: Watched = {
    bytes: () => made.bytes,
    hold: () => {
      made.state = "held";
    },
    release: () => {
      made.state = "read";
    },
  };
  return Object.assign(made, { watched });
}

/** a machine's share; `free` while it has done little */
function payer({ free }: { free: boolean }) {
  const waiting: (() => void)[] = [];
  return { waiting, spend: () => free, turn: () => new Promise<void>((resolve) => waiting.push(resolve)) };
}

function clocked() {
  let [active, idle] = [0, 0];
  const load = new LoadWatch({ now: () => active + idle, used: () => ({ active, idle }) });
  const pass = (took: { active: number; idle?: number }) => {
    active += took.active;
    idle += took.idle ?? 0;
    load.look();
  };
  return { load, pass };
}
