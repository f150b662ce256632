/**
 * Runs a program in a session as if it ran here: its output, its input, its signals and its exit code. A connection that
 * breaks off is made again where it ended.
 */

import { codeOf } from "../../base/error-code.ts";
import { ApiError } from "../../client/client.ts";
import type { Daemon } from "../client/daemon.ts";
import { attachTerminal, type Program, sizeOf } from "../client/terminal.ts";
import type { CommandContext } from "../command.ts";
import { CliError, NoAnswer } from "../errors.ts";
import { plainJson } from "../print/egress-table.ts";

export interface ProgramSpec {
  /** the program and its arguments; none for the image's own */
  words: string[];
  session: string;
  /** whether it reads this program's input */
  interactive: boolean;
  /** whether it gets a terminal */
  tty: boolean;
  json: boolean;
  env?: Record<string, string>;
  cwd?: string | undefined;
  user?: string | undefined;
}

/** a third Ctrl-C ends a program that ignores the first two */
const patientSignals = 2;

/** ms before each further attempt to connect */
const pauses = [100, 200, 500, 1000, 2000, 5000, 5000, 5000];

/** the exit code of the program */
export async function runProgram(daemon: Daemon, spec: ProgramSpec, context: CommandContext): Promise<number> {
  const { words, session, interactive, tty, json } = spec;
  const [name, ...args] = words;
  const started = await daemon.ask(
    name === undefined ? "run the image's command" : `run "${name}"`,
    daemon.client.call("startCommand", {
      params: { session },
      query: daemon.team,
      body: {
        ...(name !== undefined && { command: name, args }),
        env: { ...(tty && { TERM: terminalName(context.environment) }), ...spec.env },
        ...(spec.cwd !== undefined && { cwd: spec.cwd }),
        ...(spec.user !== undefined && { user: spec.user }),
        ...(tty ? { terminal: sizeOf(context.output) } : { stdin: interactive }),
      },
    }),
  );
  const program = { session, command: started.id };
  const left = new AbortController();
  const stopListening = passSignals(daemon, program, context, left);
  try {
    if (tty) await attachTerminal(daemon, program, context, left.signal);
    else {
      if (interactive) void feed(daemon, program, context, left.signal);
      await showOutput(daemon, program, { json, signal: left.signal }, context);
    }
    if (left.signal.aborted) return 129;
    return await endOf(daemon, program, json, context);
  } finally {
    stopListening();
    left.abort();
    if (interactive) context.input.destroy();
  }
}

/** prints the output of a program until it ends */
async function showOutput(
  daemon: Daemon,
  program: Program,
  { json, signal }: { json: boolean; signal: AbortSignal },
  context: CommandContext,
): Promise<void> {
  let from = 0;
  for (let failures = 0; !signal.aborted; ) {
    try {
      const query = { ...daemon.team, follow: true, encoding: json ? ("text" as const) : ("base64" as const), from };
      for await (const line of daemon.client.lines("readOutput", { params: program, query, signal })) {
        failures = 0;
        await printOutput(line, json, context);
        from = line.next;
      }
      const { endedAt } = await daemon.client.call("getCommand", { params: program, query: daemon.team });
      if (endedAt !== null) return;
    } catch (error) {
      if (signal.aborted) return;
      if (!isBroken(error)) throw error;
    }
    const pause = pauses[failures++];
    if (pause === undefined) throw new NoAnswer(`Cannot go on: the connection to "${daemon.url}" is lost`);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
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
  if (dropped > 0) context.warn(`${dropped} bytes of output before this are no longer kept`);
  await context.write(stream === "stderr" ? context.errors : context.output, Buffer.from(data, "base64"));
}

/** whether asking again may help */
function isBroken(error: unknown): boolean {
  if (error instanceof ApiError) return error.status === 0 || error.status === 429 || error.status === 503;
  // A body that breaks off is a TypeError of fetch, whose cause has the code.
  return error instanceof NoAnswer || (error instanceof TypeError && codeOf(error.cause) !== undefined);
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

/** Signals for this program go to that one. SIGHUP also ends this one: its terminal is gone. */
function passSignals(daemon: Daemon, params: Program, { signals }: CommandContext, left: AbortController) {
  let count = 0;
  const pass = (signal: "SIGINT" | "SIGTERM" | "SIGHUP") => {
    const body = { signal: ++count > patientSignals ? ("SIGKILL" as const) : signal };
    // The program may have ended meanwhile.
    const sent = daemon.client.call("signalCommand", { params, query: daemon.team, body }).catch(() => undefined);
    if (signal === "SIGHUP") void sent.then(() => left.abort());
  };
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) signals.on(name, pass);
  return () => {
    for (const name of names) signals.off(name, pass);
  };
}

const causes = {
  "out-of-memory": "it needed more memory than the sandbox has",
  timeout: "it ran longer than it may",
  "session-ended": "the sandbox has stopped",
};

async function endOf(daemon: Daemon, params: Program, json: boolean, context: CommandContext): Promise<number> {
  for (;;) {
    const waiting = daemon.client.call("waitForCommand", { params, query: daemon.team });
    const { endedAt, exitCode, endCause, sessionId, id } = await daemon.ask("wait for the program", waiting);
    if (endedAt === null && exitCode === null) continue;
    if (json) context.print(plainJson({ exitCode, endCause, session: sessionId, command: id }));
    if (endCause !== null) context.warn(`The program was ended: ${causes[endCause]}`);
    if (exitCode === null) throw new CliError("Cannot tell the program's exit code: it was not kept");
    return exitCode;
  }
}

/** a terminal that images know; else the most usual one */
function terminalName({ TERM = "" }: NodeJS.ProcessEnv): string {
  return /^(xterm|screen|tmux|linux)(-256color)?$/.test(TERM) ? TERM : "xterm-256color";
}

/** the part of a command line before "--", and the program and its arguments after it */
export function splitAtDashes(args: string[]): { own: string[]; words: string[] | undefined } {
  const at = args.indexOf("--");
  return at < 0 ? { own: args, words: undefined } : { own: args.slice(0, at), words: args.slice(at + 1) };
}

/** refuses a terminal for a program whose input or output is none here */
export function requireTerminal({ input, output }: CommandContext, json: boolean): void {
  if (json) throw new CliError("Cannot use -t with --json: a terminal shows the program's output as it is");
  if (input.isTTY && output.isTTY) return;
  const hint = "leave out -t; -i alone passes the input on";
  throw new CliError("Cannot use -t: standard input and output must be a terminal", hint);
}
