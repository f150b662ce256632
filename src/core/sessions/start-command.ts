/** Starts what an image says that a sandbox runs from its boot on, and waits until the sandbox is ready. */

import { after, within } from "../../base/concurrency/waits.ts";
import { shellLine } from "../commands/login-shell.ts";
import type { Context } from "../context.ts";
import { trustEnvironment, trusted } from "../images/trust.ts";
import { SandkeepError } from "../model/errors.ts";
import type { StartCommand } from "../model/image.ts";
import type { Session } from "../model/sandbox.ts";
import type { ExecSpec, ExitStatus, Machine, OutputChunk, Process } from "../ports/runtime.ts";
import { openEnvironment } from "../sandboxes/environments.ts";

/** longest time until a sandbox is ready, in ms; less than the minute after which many clients give up */
const patience = 55_000;
/** between two calls of the ready command, in ms */
const pause = 50;
/** bytes of output that are kept: of the start command, and of each call of the ready command */
const outputLimit = 1 << 20;
const probeOutputLimit = 16 << 10;
/** characters of a program's output that an error repeats */
const lastOutput = 2000;

/** Runs a line for the shell inside. */
export type RunLine = (line: string, limits: Pick<ExecSpec, "timeLimit" | "outputLimit">) => Promise<Process>;

export interface Starting {
  run: RunLine;
  now: () => number;
  /** how long to look whether a command without a ready command fails, in ms; default not at all */
  settles?: number;
  /** gets the output of the command so far, when the sandbox is ready or has failed */
  read?: (output: AsyncIterable<OutputChunk>) => Promise<void>;
}

/** starts a session's machine */
export async function startSession(
  context: Context,
  machine: Machine,
  session: Session,
  start: StartCommand,
): Promise<void> {
  await trusted(machine);
  const run: RunLine = (line, limits) =>
    machine.exec({
      id: context.ids.command(),
      argv: shellLine(line),
      cwd: session.cwd,
      user: session.user,
      env: {
        ...trustEnvironment(session.networkPolicy, context),
        ...openEnvironment(session.env, context.seal),
      },
      ...limits,
    });
  await startCommand(start, { run, now: context.now });
}

/** throws if the start command ends with an error before the sandbox is ready, or if that takes too long */
export async function startCommand({ command, ready }: StartCommand, starting: Starting): Promise<void> {
  const { run, settles = 0, read } = starting;
  const process = command === undefined ? undefined : await run(command, { outputLimit });
  const failing = process?.exited.then((exit) => requireSuccess(process, exit));
  // It may fail later, when the sandbox is ready already.
  failing?.catch(() => undefined);
  const started =
    ready === undefined ? within(failing ?? Promise.resolve(), settles) : untilReady(ready, starting, failing);
  const failure = await started.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (process) await read?.(process.output({ follow: false }));
  if (failure !== undefined) throw failure;
}

async function untilReady(ready: string, { run, now }: Starting, failing: Promise<void> | undefined): Promise<void> {
  const begin = now();
  const failed = failing?.then(() => new Promise<never>(() => undefined));
  failed?.catch(() => undefined);
  let why = "";
  for (;;) {
    const left = begin + patience - now();
    if (left <= 0) {
      const seconds = patience / 1000;
      throw new SandkeepError("timeout", `Cannot start the sandbox: it was not ready within ${seconds} s${why}`);
    }
    const probe = await run(ready, { timeLimit: left, outputLimit: probeOutputLimit });
    const exit = await Promise.race([...(failed ? [failed] : []), probe.exited]);
    if (exit.code === 0 && !exit.timedOut) return;
    const how = exit.timedOut ? "did not end" : `ended with exit code ${exit.code}`;
    why = `: its ready command ${how}${await said(probe)}`;
    await after(pause);
  }
}

async function requireSuccess(process: Process, { code }: ExitStatus): Promise<void> {
  if (code === 0) return;
  const why = `its start command ended with exit code ${code}${await said(process)}`;
  throw new SandkeepError("invalid", `Cannot start the sandbox: ${why}`);
}

/** the end of a program's output, as a part of a sentence */
async function said(process: Process): Promise<string> {
  const decoder = new TextDecoder();
  let last = "";
  for await (const { data } of process.output({ follow: false })) {
    last = (last + decoder.decode(data, { stream: true })).slice(-lastOutput);
  }
  return last.trim() === "" ? "" : `. It said last:\n${last.trim()}`;
}
