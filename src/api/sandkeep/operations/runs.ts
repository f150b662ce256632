/** Runs: one request makes a sandbox, runs a program in it, returns the output and deletes the sandbox. */

import { z } from "zod";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import type { OutputChunk } from "../../../core/ports/runtime.ts";
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
        "connection breaks off, the sandbox stays: continue with `readOutput`, and delete it yourself. Or repeat the " +
        "request, if it had an `Idempotency-Key`: you get all lines from the first on, and the sandbox is deleted at " +
        "the end. A repeat after that end is refused with 410.",
      about: "project",
      body: z.strictObject({
        sandbox: bodies.create.optional(),
        program: newCommand,
        keep: z.boolean().default(false).meta({ description: "Whether the sandbox stays after the program's end" }),
        encoding: z.enum(["text", "base64"]).default("text").meta({ description: "As of `readOutput`" }),
      }),
      answer: { status: 200, description: "What happens, as lines of JSON", others: { "application/x-ndjson": line } },
      callsOnce: true,
      async run({ caller, owner, body: { sandbox: wanted = {}, program, keep, encoding }, request, once }) {
        const { command: name, timeout: timeLimit, terminal: pty, ...spec } = program;
        const left = new AbortController();
        const { signal } = left;
        let live: AsyncIterable<OutputChunk> | undefined;
        const { sandbox, command } = await once(start);
        const session = command.sessionId;
        const output = live ?? (await again());
        async function* lines() {
          yield { type: "started" as const, sandbox, command };
          for await (const each of outputLines(output, encoding)) yield { type: "output" as const, ...each };
          const ended = await core.commands.wait(caller, session, command.id, signal);
          if (signal.aborted) return;
          if (!keep) await remove(sandbox.name).catch(unlessGone);
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
          const made = await core.sandboxes.create(owner, specOf(wanted));
          try {
            request.signal.throwIfAborted();
            const started = await core.commands.run(caller, made.session.id, { ...spec, name, timeLimit, pty });
            live = await follow(started.sessionId, started.id);
            return { sandbox: printSandbox(made, domain()), command: printCommand(started) };
          } catch (error) {
            // A sandbox whose program does not start, or whose client has gone already, is of no use.
            await remove(made.sandbox.name).catch(logError);
            throw error;
          }
        }

        /** the output of the program that an earlier request with this key has started */
        async function again() {
          const there = await core.sandboxes.get(owner, sandbox.name).catch(unlessGone);
          if (there?.sandbox.id === sandbox.id) return follow(session, command.id);
          const why = "the program has ended, and its sandbox is deleted with the output";
          throw new SandkeepError("gone", `Cannot repeat the run with this Idempotency-Key: ${why}`);
        }

        function follow(sessionId: string, id: string) {
          return core.commands.output(caller, sessionId, id, { from: 0, follow: true, signal });
        }

        function remove(called: string) {
          return core.sandboxes.delete(owner, called, { orphanSnapshots: true, early: true });
        }
      },
    }),
  ];
}

/** two requests with one key may both reach the end, and one of them deletes the sandbox */
function unlessGone(error: unknown): undefined {
  if (!isSandkeepError(error) || error.code !== "not-found") throw error;
}
