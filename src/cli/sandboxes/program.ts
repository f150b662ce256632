/**
 * Runs a program in a session as if it ran here: its output, its input, its signals and its exit code. A connection that
 * breaks off is made again where it ended.
 */

import { ApiError } from "../../client/client.ts";
import type { Line } from "../../client/types.ts";
import type { Daemon } from "../client/daemon.ts";
import {
  type CommandContext,
  encodingOf,
  exitCodes,
  type Program,
  type ProgramSpec,
  pauses,
  startOf,
} from "../command.ts";
import { CliError, NoAnswer, NoProgram, Refusal } from "../errors.ts";
import { plainJson } from "../print/plain.ts";

/** starts a program; resolves with its exit code when it has ended */
export async function runProgram(daemon: Daemon, spec: ProgramSpec, context: CommandContext): Promise<number> {
  const { session } = spec;
  const started = await startedOf(
    daemon,
    spec.words,
    daemon.client.call("startCommand", { params: { session }, query: daemon.team, body: startOf(spec, context) }),
  );
  return attend(daemon, { session, command: started.id }, { ...spec, left: new AbortController() }, context);
}

/** the answer to a request that starts a program; an error if the sandbox has no such program */
export async function startedOf<T>(daemon: Daemon, words: string[], answer: Promise<T>): Promise<T> {
  try {
    return await daemon.ask(runningOf(words), answer);
  } catch (error) {
    if (!(error instanceof Refusal && error.code === "unknown_executable")) throw error;
    const [line = "", ...args] = words;
    const { shellWord } = await import("../print/output.ts");
    const isShells = args.length === 0 && /[\s;&|<>$]/.test(line);
    throw new NoProgram(
      error.message,
      isShells ? `to have a shell read it, write: sh -c ${shellWord(line)}` : undefined,
    );
  }
}

/** what an error cannot do, in words */
function runningOf([name]: string[]): string {
  return name === undefined ? "run the image's command" : `run "${name}"`;
}

export interface Attention {
  interactive: boolean;
  tty: boolean;
  json: boolean;
  /** aborted when this program leaves the other one alone */
  left: AbortController;
  /** what happens to a program that is left alone, as a sentence */
  afterwards?: string;
  /** the lines of a run, if it is one; those after the first */
  lines?: AsyncIterable<RunLine>;
}

export type RunLine = Line<"runProgram">;
type Ended = Extract<RunLine, { type: "ended" }>["command"];

/** shows a program's output, sends it the input and the signals, and returns its exit code */
export async function attend(
  daemon: Daemon,
  program: Program,
  attention: Attention,
  context: CommandContext,
): Promise<number> {
  const { interactive, tty, json, left } = attention;
  const signals = passSignals(daemon, program, attention, context);
  try {
    let ended: Ended | undefined;
    if (tty) {
      const { attachTerminal } = await import("../client/terminal.ts");
      await attachTerminal(daemon, program, context, left.signal);
    } else {
      if (interactive) void feed(daemon, program, context, left.signal);
      ended = await showOutput(daemon, program, attention, context);
    }
    return signals.code() ?? (await endOf(daemon, program, { json, ended }, context));
  } finally {
    signals.stop();
    left.abort();
    if (interactive) context.input.destroy();
  }
}

/** prints the output of a program until it ends; returns the command if the daemon has sent it along */
async function showOutput(
  daemon: Daemon,
  program: Program,
  { json, left: { signal }, lines }: Attention,
  context: CommandContext,
): Promise<Ended | undefined> {
  let from = 0;
  let run = lines;
  for (let failures = 0; !signal.aborted; ) {
    try {
      const query = { ...daemon.team, follow: true, encoding: encodingOf(json), from };
      for await (const line of run ?? daemon.client.lines("readOutput", { params: program, query, signal })) {
        failures = 0;
        if (!("data" in line)) {
          if (line.type === "ended") return line.command;
          continue;
        }
        await printOutput(line, json, context);
        from = line.next;
      }
      if (!run) {
        const { endedAt } = await daemon.client.call("getCommand", { params: program, query: daemon.team });
        if (endedAt !== null) return undefined;
      }
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!isBroken(error)) throw error;
    }
    // A run that breaks off is continued as any other program.
    run = undefined;
    const pause = pauses[failures++];
    if (pause === undefined) throw new NoAnswer(`Cannot go on: the connection to "${daemon.url}" is lost`);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return undefined;
}

interface OutputLine {
  stream: "stdout" | "stderr";
  data: string;
  dropped: number;
}

/** prints a line of output: as JSON, or its exact bytes on the stream that they came from */
export async function printOutput(line: OutputLine, json: boolean, context: CommandContext): Promise<void> {
  const { stream, data, dropped } = line;
  if (json) return context.print(plainJson({ stream, data, ...(dropped > 0 && { dropped }) }));
  await context.write(stream === "stderr" ? context.errors : context.output, Buffer.from(data, "base64"));
  if (dropped === 0) return;
  // If the reader of the output has gone, this is the turn in which that is noticed, and nothing more is said.
  await new Promise(setImmediate);
  context.warn(`${dropped} bytes of output before this are no longer kept`);
}

/** whether asking again may help */
function isBroken(error: unknown): boolean {
  if (error instanceof ApiError) return error.status === 0 || error.status === 429 || error.status === 503;
  // The others are of a connection that breaks off.
  return error instanceof NoAnswer || (error instanceof Error && "code" in error);
}

/** sends the input to the program until either ends */
async function feed(daemon: Daemon, params: Program, { input, warn }: CommandContext, signal: AbortSignal) {
  let offset = 0;
  const send = async (data: Buffer, close: boolean) => {
    for (let sent = 0; sent < data.length || close; ) {
      const body = { data: data.subarray(sent).toString("base64"), encoding: "base64" as const, offset, close };
      const answer = await daemon.client.call("writeInput", { params, query: daemon.team, body, signal });
      sent += answer.taken - offset;
      offset = answer.taken;
      if (answer.complete) return;
    }
  };
  try {
    for await (const chunk of input as AsyncIterable<Buffer>) await send(chunk, false);
    await send(Buffer.alloc(0), true);
  } catch (error) {
    // A program may end without reading all of its input.
    if (signal.aborted || (error instanceof ApiError && [404, 409, 410].includes(error.status))) return;
    warn(`Cannot send the input: ${error instanceof Error ? error.message : error}`);
  }
}

/**
 * Signals for this program go to that one. A second one means that it does not end: this program leaves it alone then.
 * So it does when its terminal is gone, or when it is ended itself with a terminal, since shells ignore SIGTERM.
 */
function passSignals(
  daemon: Daemon,
  params: Program,
  { tty, left, afterwards = "the program goes on" }: Attention,
  { signals, warn }: CommandContext,
) {
  let code: number | undefined;
  let count = 0;
  const pass = (received: keyof typeof exitCodes) => {
    const isLast = received === "SIGHUP" || (received === "SIGTERM" && tty);
    if (isLast || ++count > 1) code = exitCodes[received];
    if (count > 1) {
      warn(`Gave up waiting for the program: ${afterwards}`);
      return left.abort();
    }
    const body = { signal: isLast ? ("SIGHUP" as const) : received };
    // The program may have ended meanwhile.
    const sent = daemon.client.call("signalCommand", { params, query: daemon.team, body }).catch(() => undefined);
    if (isLast) void sent.then(() => left.abort());
  };
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) signals.on(name, pass);
  return {
    /** of this program, if it has left the other one alone */
    code: () => code,
    stop() {
      for (const name of names) signals.off(name, pass);
    },
  };
}

const causes = {
  "out-of-memory": "it needed more memory than the sandbox has",
  timeout: "it ran longer than it may",
  "session-ended": "the sandbox has stopped",
};

type Cause = keyof typeof causes;

/** why a program was ended; a sandbox stops most often because its time is over */
async function causeOf(daemon: Daemon, { session }: Program, cause: Cause, endedAt: number | null): Promise<string> {
  if (cause !== "session-ended") return causes[cause];
  const asked = daemon.client.call("getSession", { params: { session }, query: daemon.team });
  const { endCause, expiresAt, timeout } = await asked.catch(() => ({ endCause: null, expiresAt: null, timeout: 0 }));
  // While it stops, the cause is not known yet.
  const { durationInWords } = await import("../units.ts");
  const isOver = endCause === "timeout" || (endCause === null && (expiresAt ?? Infinity) <= (endedAt ?? 0));
  const more = "sandkeep run --timeout gives a sandbox more";
  return isOver ? `the sandbox's time of ${durationInWords(timeout)} was over; ${more}` : causes[cause];
}

async function endOf(
  daemon: Daemon,
  params: Program,
  { json, ended }: { json: boolean; ended: Ended | undefined },
  context: CommandContext,
): Promise<number> {
  for (let known = ended; ; known = undefined) {
    const waiting = () => daemon.client.call("waitForCommand", { params, query: daemon.team });
    const { endedAt, exitCode, endCause, sessionId, id } =
      known ?? (await daemon.ask("wait for the program", waiting()));
    if (endedAt === null && exitCode === null) continue;
    if (json) context.print(plainJson({ exitCode, endCause, session: sessionId, command: id }));
    if (endCause !== null) context.warn(`The program was ended: ${await causeOf(daemon, params, endCause, endedAt)}`);
    if (exitCode === null) throw new CliError("Cannot tell the program's exit code: it was not kept");
    return exitCode;
  }
}

/** refuses a terminal for a program if its input or output here is not one */
export function requireTerminal(
  { input, output }: Pick<CommandContext, "input" | "output">,
  json: boolean,
  { what = "use -t", hint = "leave out -t; -i alone passes the input on" } = {},
): void {
  if (json) throw new CliError(`Cannot ${what} with --json: a terminal shows the program's output as it is`);
  if (input.isTTY && output.isTTY) return;
  throw new CliError(`Cannot ${what}: standard input and output must be a terminal`, hint);
}
