/** What a list of sandboxes shows of each: its last command, and its load while it runs. */

import { expect, test } from "vitest";
import { SandkeepError } from "../model/errors.ts";
import type { Command, Owner, Session } from "../model/sandbox.ts";
import type { Load } from "../sessions/load.ts";
import { Activities } from "./activities.ts";
import type { Booted } from "./sandboxes.ts";

const owner = { teamId: "team", projectId: "project" } as Owner;
const command = { id: "cmd_1" } as Command;
const load = { processors: 1 } as Load;

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
    },
    commands: { page: async (_, session) => ({ items: session === "idle" ? [] : [command] }) },
  });
}

test("running sandboxes have a load, and all have their last command", async () => {
  const found = await activities({ busy: "running", idle: "running", over: "stopped" }).of(owner, [
    "busy",
    "idle",
    "over",
    "gone",
  ]);
  expect(found).toEqual([
    { name: "busy", command, load },
    { name: "idle", load },
    { name: "over", command },
  ]);
});

test("a session that ends meanwhile has no load", async () => {
  expect(await activities({ busy: "running" }, false).of(owner, ["busy"])).toEqual([{ name: "busy", command }]);
});
