/** Runs: one request makes a sandbox, runs a program in it, returns the output and deletes the sandbox. */

import { z } from "zod";
import { ndjson } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { operation } from "../frame/operation.ts";
import { commandResource, newCommand, outputLine, outputLines, printCommand } from "../resources/command.ts";
import { printSandbox, sandboxBodies, sandboxResource, specOf } from "../resources/sandbox.ts";
import type { Dialect } from "../sandkeep.ts";

const line = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), sandbox: sandboxResource, command: commandResource }),
  outputLine.extend({ type: z.literal("output") }).meta({ id: "RunOutput" }),
  z.object({ type: z.literal("ended"), command: commandResource }),
]);

export function runOperations({ core, limits, domain, logError, ending }: Dialect) {
  const bodies = sandboxBodies(limits);
  return [
    operation({
      id: "runProgram",
      method: "POST",
      path: "/runs",
      tag: "Commands",
      summary: "Makes a sandbox, runs a program in it, returns its output, and deletes the sandbox",
      description:
        "The first line has the sandbox and the command, the last line the command with its exit code. When that " +
        "comes, no list has the sandbox and its name is free; its processes end within moments. If the " +
        "connection breaks off, the sandbox stays: continue with `readOutput`, and delete it yourself.",
      about: "project",
      body: z.strictObject({
        sandbox: bodies.create.optional(),
        program: newCommand,
        keep: z.boolean().default(false).meta({ description: "Whether the sandbox stays after the program's end" }),
        encoding: z.enum(["text", "base64"]).default("text").meta({ description: "As of `readOutput`" }),
      }),
      answer: { status: 200, description: "What happens, as lines of JSON", others: { "application/x-ndjson": line } },
      async run({ caller, owner, body: { sandbox: wanted = {}, program, keep, encoding }, request }) {
        const { command: name, timeout: timeLimit, terminal: pty, ...spec } = program;
        const made = await core.sandboxes.create(owner, specOf(wanted));
        const session = made.session.id;
        const remove = () => core.sandboxes.delete(owner, made.sandbox.name, { orphanSnapshots: true, early: true });
        const left = new AbortController();
        const { signal } = left;
        const { started, output } = await start().catch(async (error) => {
          // A sandbox whose program does not start, or whose client has gone already, is of no use.
          await remove().catch(logError);
          throw error;
        });
        async function* lines() {
          const sandbox = printSandbox(made, domain());
          yield { type: "started" as const, sandbox, command: printCommand(started) };
          for await (const each of outputLines(output, encoding)) yield { type: "output" as const, ...each };
          const ended = await core.commands.wait(caller, session, started.id, signal);
          if (signal.aborted) return;
          if (!keep) await remove();
          yield { type: "ended" as const, command: printCommand(ended) };
        }
        return ndjson(
          (gone) => {
            gone.addEventListener("abort", () => left.abort(), { once: true });
            return lines();
          },
          { failure: (error) => errorLine(error, logError), patience: limits.patience, ending },
        );

        async function start() {
          request.signal.throwIfAborted();
          const command = await core.commands.run(caller, session, { ...spec, name, timeLimit, pty });
          const following = { from: 0, follow: true, signal };
          return { started: command, output: await core.commands.output(caller, session, command.id, following) };
        }
      },
    }),
  ];
}
