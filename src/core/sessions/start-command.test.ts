/** Starting what an image says, with a machine that is made up and a clock that its programs move. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { idsFrom } from "../model/ids.ts";
import type { ExecSpec, Machine } from "../ports/runtime.ts";
import { startCommand } from "./start-command.ts";

/** `took`: ms of each program; `codes`: how the ready commands end, the last one for ever */
function host(took: number, codes: number[]) {
  let now = 0;
  const run: ExecSpec[] = [];
  const exec = async (spec: ExecSpec) => {
    run.push(spec);
    now += took;
    const code = codes.length > 1 ? codes.shift() : codes[0];
    return { exited: spec.timeLimit === undefined ? new Promise(() => undefined) : Promise.resolve({ code }) };
  };
  const seal = { isSealed: () => false };
  const ids = idsFrom((count) => crypto.getRandomValues(new Uint8Array(count)));
  // It uses only these parts.
  const context = { now: () => now, ids, seal } as unknown as Context;
  return { run, context, machine: { exec } as unknown as Machine };
}

test("the command goes on while the ready command is tried until it succeeds, both as the sandbox's user", async () => {
  const { run, context, machine } = host(10, [0, 1, 1, 0]);
  await startCommand(context, machine, session, { command: "serve", ready: "probe" });
  expect(run.map(({ argv }) => argv.at(-1))).toEqual(["serve", "probe", "probe", "probe"]);
  for (const spec of run) expect(spec).toMatchObject({ user: session.user, cwd: session.cwd });
  expect(run[0]?.timeLimit).toBeUndefined();
});

test("a sandbox that is never ready fails after its time, and one without a ready command is ready at once", async () => {
  const slow = host(25_000, [1]);
  const starting = startCommand(slow.context, slow.machine, session, { ready: "false" });
  await expect(starting).rejects.toMatchObject({ code: "timeout", message: expect.stringContaining("60 s") });
  expect(slow.run.map(({ timeLimit }) => timeLimit)).toEqual([60_000, 35_000, 10_000]);
  const plain = host(0, [1]);
  await startCommand(plain.context, plain.machine, session, { command: "serve" });
  expect(plain.run).toHaveLength(1);
});
