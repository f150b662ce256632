/** Starting what an image says, with a machine that is made up and a clock that its programs move. */

import { expect, test } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { idsFrom } from "../model/ids.ts";
import type { ExecSpec, Machine } from "../ports/runtime.ts";
import { startCommand, startSession } from "./start-command.ts";

async function* text(...lines: string[]) {
  for (const line of lines) yield { data: Buffer.from(line) };
}

/** `took`: ms of each program; `codes`: how the ready commands end, the last one for ever; `failed`: the command's end */
function host(took: number, codes: number[], failed?: number) {
  let now = 0;
  const run: ExecSpec[] = [];
  const exec = async (spec: ExecSpec) => {
    run.push(spec);
    now += took;
    const code = codes.length > 1 ? codes.shift() : codes[0];
    const isProbe = spec.timeLimit !== undefined;
    const never = new Promise(() => undefined);
    return {
      exited: isProbe ? Promise.resolve({ code }) : failed === undefined ? never : Promise.resolve({ code: failed }),
      output: () => text("first\n", isProbe ? "not yet\n" : "port is taken\n"),
    };
  };
  const seal = { isSealed: () => false };
  const ids = idsFrom((count) => crypto.getRandomValues(new Uint8Array(count)));
  // It uses only these parts.
  const context = { now: () => now, ids, seal } as unknown as Context;
  return { run, context, machine: { exec } as unknown as Machine };
}

test("the command goes on while the ready command is tried until it succeeds, both as the sandbox's user", async () => {
  const { run, context, machine } = host(10, [0, 1, 1, 0]);
  await startSession(context, machine, session, { command: "serve", ready: "probe" });
  expect(run.map(({ argv }) => argv.at(-1))).toEqual(["serve", "probe", "probe", "probe"]);
  for (const spec of run) expect(spec).toMatchObject({ user: session.user, cwd: session.cwd });
  expect(run[0]?.timeLimit).toBeUndefined();
});

test("a sandbox that is never ready fails after its time, and one without a ready command is ready at once", async () => {
  const slow = host(25_000, [1]);
  const starting = startSession(slow.context, slow.machine, session, { ready: "false" });
  const message = /within 55 s: its ready command ended with exit code 1. It said last:\nfirst\nnot yet$/;
  await expect(starting).rejects.toMatchObject({ code: "timeout", message: expect.stringMatching(message) });
  expect(slow.run.map(({ timeLimit }) => timeLimit)).toEqual([55_000, 30_000, 5000]);
  const plain = host(0, [1]);
  await startSession(plain.context, plain.machine, session, { command: "serve" });
  expect(plain.run).toHaveLength(1);
});

test("a command that fails before the sandbox is ready ends the wait, and one that succeeds does not", async () => {
  const broken = host(10, [1], 7);
  const message = /its start command ended with exit code 7. It said last:\nfirst\nport is taken$/;
  const start = { command: "serve", ready: "probe" };
  await expect(startSession(broken.context, broken.machine, session, start)).rejects.toThrow(message);
  expect(broken.run.length).toBeLessThan(4);
  const forked = host(10, [0, 1, 1, 0], 0);
  await startSession(forked.context, forked.machine, session, start);
  expect(forked.run).toHaveLength(4);
});

test("without a ready command, a caller may look for a while whether the command fails, and read its output", async () => {
  const { context, machine } = host(0, [0], 7);
  const read: string[] = [];
  const starting = startCommand(
    { command: "serve" },
    {
      run: (line, limits) => machine.exec({ id: "a", argv: [line], ...limits }),
      now: context.now,
      settles: 60_000,
      read: async (output) => {
        for await (const { data } of output) read.push(Buffer.from(data).toString());
      },
    },
  );
  await expect(starting).rejects.toThrow("exit code 7");
  expect(read).toEqual(["first\n", "port is taken\n"]);
});
