/** What a list of sandboxes shows of each: its last command, and its load and traffic while it runs. */

import { expect, test } from "vitest";
import { SandkeepError } from "../model/errors.ts";
import type { Command, Owner, Session } from "../model/sandbox.ts";
import type { Load } from "../sessions/load.ts";
import type { Sample } from "../sessions/samples.ts";
import { Activities } from "./activities.ts";
import type { Booted } from "./sandboxes.ts";

const owner = { teamId: "team", projectId: "project" } as Owner;
const command = { id: "cmd_1" } as Command;
const load = { processors: 1, network: { received: 7, sent: 5 } } as Load;
const samples = [{ at: 10, processors: 0.5 }] as Sample[];

function activities(states: Record<string, Session["state"]>, isLoadKnown = true) {
  return new Activities({
    sandboxes: {
      async get(_, name) {
        const state = states[name];
        if (!state) throw new SandkeepError("not-found", `There is no sandbox "${name}"`);
        return { session: { id: name, state } } as Booted;
      },
    },
    sessions: {
      async load() {
        if (!isLoadKnown) throw new SandkeepError("gone", "It has ended");
        return load;
      },
      async usage() {
        return { durationMs: 0, cpuMs: 0, ingressBytes: 3, egressBytes: 2 };
      },
      async samples(_, __, { from }) {
        return samples.filter(({ at }) => at >= (from ?? 0));
      },
    },
    commands: { page: async (_, session) => ({ items: session === "idle" ? [] : [command] }) },
  });
}

test("running sandboxes have a load, those that are not over have traffic, and all have their last command", async () => {
  const states = { busy: "running", idle: "running", still: "paused", over: "stopped" } as const;
  expect(await activities(states).of(owner, [...Object.keys(states), "gone"])).toEqual([
    { name: "busy", sessionId: "busy", command, load, traffic: { bytesIn: 7, bytesOut: 5 } },
    { name: "idle", sessionId: "idle", load, traffic: { bytesIn: 7, bytesOut: 5 } },
    { name: "still", sessionId: "still", command, traffic: { bytesIn: 3, bytesOut: 2 } },
    { name: "over", sessionId: "over", command },
  ]);
});

test("those that run have samples if somebody asks for them", async () => {
  const states = { busy: "running", over: "stopped" } as const;
  const of = async (from: number) => {
    const found = await activities(states).of(owner, Object.keys(states), { from, step: 1000 });
    return found.map((each) => each.samples);
  };
  expect(await of(10)).toEqual([samples, undefined]);
  expect(await of(11)).toEqual([[], undefined]);
});

test("a session that ends meanwhile has no load", async () => {
  expect(await activities({ busy: "running" }, false).of(owner, ["busy"])).toEqual([
    { name: "busy", sessionId: "busy", command, traffic: { bytesIn: 3, bytesOut: 2 } },
  ]);
});
