/** Tools for commands: run one and wait or not, read its output, write to its standard input, end it. */

import { constants } from "node:os";
import { z } from "zod";
import type { Command } from "../../../core/model/sandbox.ts";
import { waitForCommand } from "../command-wait.ts";
import { commandId, handle, sessionOf } from "../handle.ts";
import { maxBytes, type OutputPart, outputFields, outputPart } from "../output.ts";
import { patiently } from "../patience.ts";
import { env, path, text } from "../schema.ts";
import { type Call, destructive, readOnly, type Tool, tool } from "../tool.ts";

const second = 1000;
const longestWait = 3600;
const longestWrite = 20 * second;
const unread =
  "Cannot write all of it in time: the command does not read its input; what it was sent reaches it when it does";

const signals = [
  "SIGTERM",
  "SIGKILL",
  "SIGINT",
  "SIGHUP",
  "SIGQUIT",
  "SIGUSR1",
  "SIGUSR2",
  "SIGSTOP",
  "SIGCONT",
] as const;

const state = {
  command_id: z.string(),
  status: z.enum(["running", "exited"]).describe("running: it continues, and read_command_output reads on."),
  exit_code: z.union([z.int(), z.null()]).describe("128 + signal when a signal killed it; null while it runs."),
  end_cause: z
    .union([z.enum(["out-of-memory", "timeout", "session-ended"]), z.null()])
    .describe("Why it ended, where the exit code alone does not tell."),
};

const runCommand = tool({
  name: "run_command",
  title: "Run a command",
  description:
    "Run a command in a running sandbox and wait for its end, at most wait_seconds. Use it for everything that a " +
    "terminal is for. command is a line for bash, so pipes and && work; with args it is a program that starts without " +
    "a shell. Returns exit_code, stdout and stderr. What still runs after wait_seconds, and what you start with " +
    "background (servers), continues: read_command_output reads on. Cancelling the call kills the command.",
  input: z.strictObject({
    ...handle,
    command: text(128 << 10)
      .min(1)
      .describe("A bash command line, or with args a program."),
    args: z
      .array(text(128 << 10))
      .max(4096)
      .optional()
      .describe("Arguments of the program, which no shell reads."),
    cwd: path.optional().describe("Directory to start in. Default: the sandbox's cwd."),
    env: env.optional().describe("More environment variables."),
    sudo: z.boolean().default(false).describe("Run as root."),
    background: z.boolean().default(false).describe("Return at once and let it run."),
    wait_seconds: z.int().min(1).max(longestWait).default(60).describe("Longest to wait for its end."),
    timeout_seconds: z.int().min(1).max(86_400).optional().describe("Kill it after this time."),
    stdin: z.boolean().default(false).describe("Keep its standard input open for write_command_input."),
    max_output_bytes: maxBytes,
  }),
  output: z.strictObject({ ...state, ...outputFields }),
  hints: { ...destructive, openWorldHint: true },
  async run(args, call) {
    const session = await sessionOf(call, args);
    const command = await call.core.commands.run(call.caller, session.id, {
      ...(args.args ? { name: args.command, args: args.args } : { name: "bash", args: ["-c", args.command] }),
      cwd: args.cwd,
      env: args.env,
      sudo: args.sudo,
      stdin: args.stdin,
      timeLimit: args.timeout_seconds && args.timeout_seconds * second,
    });
    const now = args.background ? command : await waitForCommand(call, command, args.wait_seconds * second);
    return { ...stateOf(now), ...(await part(call, now, { from: 0, cap: args.max_output_bytes })) };
  },
});

const readCommandOutput = tool({
  name: "read_command_output",
  title: "Read a command's output",
  description:
    "Read what a command has written, from an offset on. Use it for commands that run in the background or wrote more " +
    "than one answer holds; it works after their end too. Offsets count bytes of stdout and stderr together: begin " +
    "with 0, continue with next_offset. With wait_seconds it first waits for the command's end. Returns status, " +
    "exit_code, stdout and stderr.",
  input: z.strictObject({
    ...handle,
    command_id: commandId,
    offset: z.int().min(0).default(0).describe("Where to begin."),
    max_output_bytes: maxBytes,
    wait_seconds: z.int().min(0).max(longestWait).default(0).describe("Longest to wait for its end."),
  }),
  output: z.strictObject({ ...state, ...outputFields }),
  hints: readOnly,
  async run(args, call) {
    const session = await sessionOf(call, args);
    const command = await call.core.commands.get(call.caller, session.id, args.command_id);
    const waits = command.exitCode === undefined && args.wait_seconds > 0;
    const now = waits ? await waited(call, command, args.wait_seconds * second) : command;
    return { ...stateOf(now), ...(await part(call, now, { from: args.offset, cap: args.max_output_bytes })) };
  },
});

const writeCommandInput = tool({
  name: "write_command_input",
  title: "Write to a command's input",
  description:
    "Write text to the standard input of a command that run_command started with stdin: true. Use it to answer prompts. " +
    "End lines with a newline; close ends the input, which programs such as cat wait for. Returns the bytes written.",
  input: z.strictObject({
    ...handle,
    command_id: commandId,
    data: z
      .string()
      .max(1 << 20)
      .refine((value) => value.isWellFormed(), "`data` has half a character in it.")
      .describe("Text to write; may be empty."),
    close: z.boolean().default(false).describe("End the input after it."),
  }),
  output: z.strictObject({ command_id: z.string(), written_bytes: z.int().min(0), closed: z.boolean() }),
  // A shell that reads the input can do anything.
  hints: { ...destructive, openWorldHint: true },
  async run({ data, close, ...args }, call) {
    const { core, caller, signal } = call;
    const session = await sessionOf(call, args);
    const bytes = Buffer.from(data, "utf8");
    const patience = { longest: longestWrite, signal, words: unread };
    if (bytes.length > 0) await patiently(core.commands.write(caller, session.id, args.command_id, bytes), patience);
    if (close) await patiently(core.commands.closeStdin(caller, session.id, args.command_id), patience);
    return { command_id: args.command_id, written_bytes: bytes.length, closed: close };
  },
});

const killCommand = tool({
  name: "kill_command",
  title: "Signal a command",
  description:
    "Send a signal to a command and the processes of its group. Use it to end what runs in the background: SIGTERM asks " +
    "it to end, SIGKILL ends it. Returns its status as it is right after the signal.",
  input: z.strictObject({
    ...handle,
    command_id: commandId,
    signal: z.enum(signals).default("SIGTERM").describe("Signal to send."),
  }),
  output: z.strictObject(state),
  hints: destructive,
  async run(args, call) {
    const session = await sessionOf(call, args);
    const number = constants.signals[args.signal];
    return stateOf(await call.core.commands.kill(call.caller, session.id, args.command_id, number));
  },
});

export const commandTools: Tool[] = [runCommand, readCommandOutput, writeCommandInput, killCommand];

function stateOf(command: Command): z.output<z.ZodObject<typeof state>> {
  return {
    command_id: command.id,
    status: command.endedAt === undefined ? "running" : "exited",
    exit_code: command.exitCode ?? null,
    end_cause: command.endCause ?? null,
  };
}

async function part(call: Call, command: Command, { from, cap }: { from: number; cap: number }): Promise<OutputPart> {
  const chunks = await call.core.commands.output(call.caller, command.sessionId, command.id, { from, follow: false });
  return outputPart(chunks, { from, cap, ended: command.endedAt !== undefined });
}

/** waits without killing the command when the caller cancels, because this caller only reads */
async function waited({ core, caller, signal }: Call, command: Command, patience: number): Promise<Command> {
  const enough = AbortSignal.any([signal, AbortSignal.timeout(patience)]);
  try {
    return await core.commands.wait(caller, command.sessionId, command.id, enough);
  } catch (error) {
    if (!enough.aborted) throw error;
    return core.commands.get(caller, command.sessionId, command.id);
  }
}
