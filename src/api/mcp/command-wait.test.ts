/** Waiting for a command: how long, which progress is reported, and what happens when the caller cancels. */

import { expect, test } from "vitest";
import { command, endedCommand, type FakeCore, fakeCore, type Overrides } from "../../../test/harness/fake-core.ts";
import { waitForCommand } from "./command-wait.ts";
import type { Call } from "./tool.ts";

/** waits like the core: until the command ends or the signal aborts */
const endless = (_: unknown, __: string, ___: string, signal: AbortSignal) =>
  new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason));
  });

function fixture(
  overrides: Overrides,
  more: Partial<Call> = {},
): { fake: FakeCore; call: Call; cancel: AbortController } {
  const fake = fakeCore(overrides);
  const cancel = new AbortController();
  const call: Call = {
    core: fake.core,
    caller: { teamId: "team_default" },
    limits: { ports: 1, vcpus: 1, timeout: 1 },
    publicUrl: () => "",
    domain: () => "",
    closing: () => false,
    logError: (error) => expect.fail(String(error)),
    signal: cancel.signal,
    ...more,
  };
  return { fake, call, cancel };
}

test("a command that ends in time is returned as it ended", async () => {
  const { fake, call } = fixture({});
  expect(await waitForCommand(call, command, 1000)).toEqual(endedCommand);
  expect(fake.asked("commands.kill")).toEqual([]);
});

test("a command that takes longer is returned as it is, and goes on", async () => {
  const { fake, call } = fixture({ "commands.wait": endless, "commands.get": async () => command });
  expect(await waitForCommand(call, command, 1)).toEqual(command);
  expect(fake.asked("commands.kill")).toEqual([]);
});

test("a caller that cancels kills the command, but a daemon that stops does not", async () => {
  for (const closing of [false, true]) {
    const { fake, call, cancel } = fixture({ "commands.wait": endless }, { closing: () => closing });
    const waiting = waitForCommand(call, command, 60_000);
    cancel.abort();
    await expect(waiting).rejects.toThrow();
    expect(fake.asked("commands.kill").map(([, , id, signal]) => [id, signal])).toEqual(
      closing ? [] : [[command.id, 9]],
    );
  }
});

test("a caller that asks for progress gets a first report at once, and others cause no work", async () => {
  const heard: [number, string][] = [];
  const told = fixture({}, { progress: (...report) => void heard.push(report) });
  await waitForCommand(told.call, command, 1000);
  expect(heard).toEqual([[0, `Command ${command.id} has started`]]);
  expect(told.fake.asked("commands.output")).toHaveLength(1);
  const silent = fixture({});
  await waitForCommand(silent.call, command, 1000);
  expect(silent.fake.asked("commands.output")).toEqual([]);
});
