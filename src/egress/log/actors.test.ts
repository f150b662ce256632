/** Who did something: heard of netd, asked of the daemon that is there, and waited for only so long. */

import { beforeEach, expect, test, vi } from "vitest";
import { Actors, attributed, beforeRefusal } from "./actors.ts";
import type { EgressEvent } from "./log.ts";

const curl = { program: "curl", ancestry: [[12, 10, 1]] };

beforeEach(() => {
  vi.useFakeTimers();
  return () => {
    // Nothing that was waited for is waited for still.
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  };
});

test("processes are gathered, the daemon that came last is asked about them, and what it says is the answer", async () => {
  const { actors, said } = asked();
  const later: object[] = [];
  actors.connected((line) => later.push(line) > 0);
  const searches = [7, 8].map((id) => actors.find("m", id));
  actors.found(7, curl);
  actors.found(8, { program: "node", ancestry: [[13, 13, 2]] });
  await vi.advanceTimersByTimeAsync(10);
  const questions = [
    { question: 7, machine: "m", ancestry: [[12, 10, 1]] },
    { question: 8, machine: "m", ancestry: [[13, 13, 2]] },
  ];
  expect([said, later]).toEqual([[], [{ questions }]]);
  actors.answered(7, "cmd_1");
  actors.answered(7, "cmd_2");
  actors.answered(8, undefined);
  expect(await Promise.all(searches.map(({ actor }) => actor))).toEqual([
    { command: "cmd_1", program: "curl" },
    { program: "node" },
  ]);
});

test("nobody is searched for where netd has asked nobody, or too many are", async () => {
  const { actors } = asked();
  expect(await actors.find("m", 0).actor).toEqual({});
  for (let id = 1; id <= 1024; id++) actors.find("m", id);
  expect(await actors.find("m", 2000).actor).toEqual({});
  await vi.advanceTimersByTimeAsync(500);
});

test("machines that are searched all the time leave every other machine a few searches", async () => {
  const { actors } = asked();
  for (let id = 1; id <= 1024; id++) actors.find(`hostile-${id % 4}`, id);
  expect(await actors.find("hostile-1", 1025).actor).toEqual({});
  for (let id = 1101; id <= 1108; id++) actors.find("m", id);
  expect(await actors.find("m", 1109).actor).toEqual({});
  actors.found(1101, { program: "", ancestry: [] });
  const search = actors.find("m", 1110);
  actors.found(1110, curl);
  actors.answered(1110, "cmd_1");
  expect(await search.actor).toEqual({ command: "cmd_1", program: "curl" });
  await vi.advanceTimersByTimeAsync(500);
});

test("a daemon that takes no more is not waited for", async () => {
  const actors = new Actors();
  actors.connected(() => false);
  const search = actors.find("m", 1);
  actors.found(1, curl);
  await vi.advanceTimersByTimeAsync(10);
  expect(await search.actor).toEqual({ program: "curl" });
});

test("nobody waits for a netd or a daemon that is silent, for one that has gone, or where there is none", async () => {
  const { actors, gone } = asked();
  const unheard = actors.find("m", 1);
  const unanswered = actors.find("m", 2);
  actors.found(2, curl);
  await vi.advanceTimersByTimeAsync(500);
  expect(await unheard.actor).toEqual({});
  expect(await unanswered.actor).toEqual({ program: "curl" });
  const abandoned = actors.find("m", 3);
  actors.found(3, curl);
  await vi.advanceTimersByTimeAsync(10);
  gone();
  expect(await abandoned.actor).toEqual({ program: "curl" });
  const alone = actors.find("m", 4);
  actors.found(4, curl);
  await vi.advanceTimersByTimeAsync(10);
  expect(await alone.actor).toEqual({ program: "curl" });
});

test("where nobody holds the socket any more, that is known at once", async () => {
  const { actors, said } = asked();
  const search = actors.find("m", 1);
  actors.found(1, { program: "", ancestry: [] });
  actors.found(9, curl);
  expect(await search.actor).toEqual({});
  expect(said).toEqual([]);
});

test("a name is plain and short in the log, whatever it is", async () => {
  const { actors } = asked();
  const nameOf = async (program: string) => {
    const search = actors.find("m", 1);
    actors.found(1, { ...curl, program });
    actors.answered(1, undefined);
    await vi.advanceTimersByTimeAsync(10);
    return (await search.actor).program;
  };
  expect(await nameOf("a\u001b[2J\n\u202e\u2028\ufffdé")).toBe("a?[2J????é");
  expect(await nameOf("x".repeat(1000))).toHaveLength(64);
  expect(await nameOf("")).toBeUndefined();
});

test("a refusal waits until its program has been seen, but not for long, and not for the daemon", async () => {
  const { actors } = asked();
  let reported = 0;
  const refused = (id: number) => beforeRefusal(actors.find("m", id)).then(() => reported++);
  void refused(1);
  void refused(2);
  actors.found(1, curl);
  await vi.advanceTimersByTimeAsync(0);
  expect(reported).toBe(1);
  await vi.advanceTimersByTimeAsync(49);
  expect(reported).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(reported).toBe(2);
  await vi.advanceTimersByTimeAsync(500);
});

test("the log hears all of a connection with the same fields, once it is known who made it", async () => {
  const reported: object[] = [];
  const log = {
    decided: (event: EgressEvent) => void reported.push(event),
    ended: (event: EgressEvent, traffic: object) => void reported.push({ ...event, ...traffic }),
    moved: () => undefined,
    unseen: () => undefined,
    flush: async () => undefined,
  };
  const { actors, said } = asked();
  const event: EgressEvent = { machine: "m", protocol: "tcp", allowed: true };
  const { decided, ended } = attributed(log, actors.find("m", 1));
  decided(event);
  ended(event, { bytesIn: 1, bytesOut: 2 });
  actors.found(1, curl);
  await actors.settled("another");
  const settled = actors.settled("m");
  expect([said.length, reported]).toEqual([1, []]);
  actors.answered(1, "cmd_1");
  await settled;
  const whole = { ...event, command: "cmd_1", program: "curl" };
  expect(reported).toEqual([whole, { ...whole, bytesIn: 1, bytesOut: 2 }]);
});

/** with a daemon that is asked */
function asked() {
  const actors = new Actors();
  const said: object[] = [];
  const gone = actors.connected((line) => said.push(line) > 0);
  return { actors, said, gone };
}
