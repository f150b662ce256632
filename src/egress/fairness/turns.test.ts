/** Turns, by a clock of the test's own: who is served when, and that nothing stays behind. */

import { expect, test } from "vitest";
import { mostRequests, type TimeShare, Turns } from "./turns.ts";

/** more than a machine has at once, in µs */
const all = 1_000_000;

test("a machine that wants little never waits, whatever another one wants", async () => {
  const { turns } = clocked();
  const done: string[] = [];
  const hostile = turns.share();
  for (let i = 0; i < 1000; i++) void hostile.turn(10_000).then(() => done.push("hostile"));
  await settled();
  const before = done.length;
  expect(before).toBeLessThan(20);
  void turns
    .share()
    .turn(10_000)
    .then(() => done.push("neighbour"));
  await settled();
  expect(done.slice(before)).toEqual(["neighbour"]);
});

test("what waits is done in order of arrival, and machines take turns", async () => {
  const { turns, pass } = clocked();
  const done: string[] = [];
  const [one, other] = [exhausted(turns), exhausted(turns)];
  for (const name of ["a1", "a2", "a3"]) void one.turn(400).then(() => done.push(name));
  for (const name of ["b1", "b2", "b3"]) void other.turn(400).then(() => done.push(name));
  for (let i = 0; i < 10; i++) pass({ idle: 1 });
  await settled();
  expect(done).toEqual(["a1", "b1", "a2", "b2", "a3", "b3"]);
});

test("a machine that is alone gets a slice in each turn of the event loop; beside another, half of the time", async () => {
  const { turns, pass } = clocked();
  const heavy = exhausted(turns);
  let done = 0;
  for (let i = 0; i < 5000; i++) void heavy.turn(1_000).then(() => done++);
  const slices = async (count: number) => {
    const before = done;
    for (let i = 0; i < count; i++) pass({ active: 1 });
    await settled();
    return done - before;
  };
  expect(await slices(10)).toBe(40);
  void turns.share().turn(1);
  const before = done;
  for (let i = 0; i < 50; i++) {
    pass({ active: 1 });
    pass({ idle: 1 });
  }
  await settled();
  expect(done - before).toBeLessThanOrEqual(51);
  expect(done - before).toBeGreaterThanOrEqual(49);
  // Others keep the process busy all the time: it gets on nevertheless, now and then.
  const busy = await slices(100);
  expect(busy).toBeGreaterThan(0);
  expect(busy).toBeLessThan(10);
  // They have gone.
  for (let i = 0; i < 300; i++) pass({ idle: 1 });
  await settled();
  expect(await slices(10)).toBe(40);
});

test("bytes that pass count too, and do not wait while nobody else is there", () => {
  const { turns, pass } = clocked();
  const heavy = turns.share();
  expect([heavy.spend(all), heavy.spend(1)]).toEqual([true, true]);
  void turns.share().turn(1);
  expect(heavy.spend(1)).toBe(false);
  for (let i = 0; i < 1000; i++) pass({ idle: 1 });
  expect(heavy.spend(1)).toBe(true);
});

test("so many requests are under way at once, the others wait in order, and a neighbour has a limit of its own", () => {
  const { turns, pass } = clocked();
  const [one, neighbour] = [turns.share(), turns.share()];
  const begun: number[] = [];
  const over = Array.from({ length: mostRequests + 3 }, (_, i) => one.request(0, () => begun.push(i)));
  expect(begun).toHaveLength(mostRequests);
  let served = false;
  neighbour.request(0, () => {
    served = true;
  });
  expect(served).toBe(true);
  // One that is not wanted any more lets those behind it move up.
  over[mostRequests]?.();
  over[5]?.();
  over[5]?.();
  pass({});
  expect(begun.slice(mostRequests)).toEqual([mostRequests + 1]);
  over[9]?.();
  expect(begun.slice(mostRequests)).toEqual([mostRequests + 1, mostRequests + 2]);
});

test("a request that is taken back while it waits for its turn never begins, and gives its place back", () => {
  const { turns, pass } = clocked();
  const share = exhausted(turns);
  const begun: string[] = [];
  for (let i = 0; i < mostRequests; i++) share.request(1_000, () => begun.push("taken back"))();
  share.request(1_000, () => begun.push("last"));
  expect(begun).toEqual([]);
  for (let i = 0; i < mostRequests; i++) pass({});
  expect(begun).toEqual(["last"]);
});

test("nothing of a machine that has ended waits, and its requests do not begin", async () => {
  const { turns, pass, scheduled } = clocked();
  const share = exhausted(turns);
  const begun: string[] = [];
  for (let i = 0; i <= mostRequests; i++) share.request(1_000, () => begun.push("request"));
  const waiting = share.turn(1_000);
  share.end();
  await waiting;
  await share.turn(all);
  expect(share.spend(all)).toBe(true);
  while (scheduled() > 0) pass({});
  expect(begun).toEqual([]);
});

/** lets those go on that have got their turn */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** the share of a machine that has used up what it may do at once */
function exhausted(turns: Turns): TimeShare {
  const share = turns.share();
  share.spend(all);
  return share;
}

/** turns by a clock that stands still until it is told how long the process had something to do, and nothing */
function clocked() {
  let [active, idle] = [0, 0];
  let calls: { at: number; call: () => void }[] = [];
  const now = () => active + idle;
  const turns = new Turns({
    now,
    used: () => ({ active, idle }),
    after: (pause, call) => void calls.push({ at: now() + pause, call }),
  });
  /** one turn of the event loop */
  const pass = (took: { active?: number; idle?: number }) => {
    active += took.active ?? 0;
    idle += took.idle ?? 0;
    const due = calls.filter(({ at }) => at <= now());
    calls = calls.filter(({ at }) => at > now());
    for (const { call } of due) call();
  };
  return { turns, pass, scheduled: () => calls.length };
}
