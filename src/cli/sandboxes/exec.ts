/** `sandkeep exec` and `sandkeep shell`: run a program, or a shell, in a sandbox that exists. */

import { Daemon, type DaemonValues, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, oneName, parseArgs, readArgs, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { shellWord } from "../print/output.ts";
import { variablesOf } from "../units.ts";
import { requireTerminal, runProgram } from "./program.ts";

export const execUsage = `Usage: sandkeep exec [options] <sandbox> [--] <program> [arguments]

Runs a program in a sandbox with its output here; the exit code is the program's. A sandbox that is stopped or paused is
started first. Ctrl-C goes to the program; after the second one it goes on alone.

Options:
  -i, --interactive        pass standard input on to the program
  -t, --tty                give the program a terminal
  -e, --env <name=value>   a variable; a name alone takes its value from here; may be repeated
  -w, --cwd <directory>    where the program starts
  -u, --user <name>        the user that it runs as
${daemonUsage}
Example:
  sandkeep exec demo npm test
`;

export const shellUsage = `Usage: sandkeep shell [options] <sandbox>

Opens a shell in a sandbox, on this terminal. A sandbox that is stopped or paused is started first.

Options:
  -e, --env <name=value>   a variable; a name alone takes its value from here; may be repeated
  -w, --cwd <directory>    where the shell starts
  -u, --user <name>        the user that it runs as
${daemonUsage.slice(daemonUsage.indexOf("\n") + 1)}
Example:
  sandkeep shell demo
`;

const options = {
  interactive: { type: "boolean", short: "i" },
  tty: { type: "boolean", short: "t" },
  env: { type: "string", short: "e", multiple: true },
  cwd: { type: "string", short: "w" },
  user: { type: "string", short: "u" },
  ...daemonOptions,
} as const;

export async function execCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { own, words } = splitAfterName(args);
  const { values, positionals } = await readArgs(own, execUsage, options);
  if (values.help) return showUsage(execUsage, context);
  const sandbox = oneName(positionals, "run a program in a sandbox", execUsage);
  if (words.length === 0)
    throw new CliError(`Cannot run nothing in "${sandbox}": name a program`, `sandkeep shell ${sandbox} opens a shell`);
  return inSandbox(sandbox, words, values, context);
}

export async function shellCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { interactive: _, tty: __, ...ofShell } = options;
  const { values, positionals } = await readArgs(args, shellUsage, ofShell);
  if (values.help) return showUsage(shellUsage, context);
  const sandbox = oneName(positionals, "open a shell in a sandbox", shellUsage);
  requireTerminal(context, values.json ?? false, {
    what: `open a shell in "${sandbox}"`,
    hint: `sandkeep exec -i ${shellWord(sandbox)} sh reads commands from standard input`,
  });
  return inSandbox(sandbox, ["sh", "-c", "exec $(command -v bash || echo sh)"], { ...values, tty: true }, context);
}

interface ExecValues extends DaemonValues {
  interactive?: boolean | undefined;
  tty?: boolean | undefined;
  env?: string[] | undefined;
  cwd?: string | undefined;
  user?: string | undefined;
  json?: boolean | undefined;
}

async function inSandbox(sandbox: string, words: string[], values: ExecValues, context: CommandContext) {
  const { interactive = false, tty = false, json = false, cwd, user } = values;
  if (tty) requireTerminal(context, json);
  const env = variablesOf(values.env ?? [], context.environment);
  const daemon = new Daemon(values, context);
  const named = { params: { sandbox }, query: daemon.scope };
  const what = `run "${words[0]}" in "${sandbox}"`;
  const found = await daemon.askAbout(sandbox, what, daemon.client.call("getSandbox", named));
  const isOpen = found.state === "running" || found.state === "pending";
  const { session } = isOpen ? found : await daemon.ask(what, daemon.client.call("resumeSandbox", named));
  const spec = { words, session: session.id, interactive: interactive && !tty, tty, json, env, cwd, user };
  const afterwards = `it goes on in "${sandbox}"; sandkeep ps ${shellWord(sandbox)} lists it`;
  return runProgram(daemon, { ...spec, afterwards }, context);
}

/** Everything after the sandbox's name belongs to the program, also what looks like an option. */
export function splitAfterName(args: string[]): { own: string[]; words: string[] } {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  const name = tokens.find(({ kind }) => kind === "positional");
  if (!name) return { own: args, words: [] };
  const words = args.slice(name.index + 1);
  return { own: args.slice(0, name.index + 1), words: words[0] === "--" ? words.slice(1) : words };
}
