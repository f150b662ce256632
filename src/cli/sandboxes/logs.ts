/** `sandkeep logs`: the output of a program that was started in a sandbox. */

import { readArgs } from "../args.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { commandsOf } from "./list.ts";
import { printOutput } from "./program.ts";

export const logsUsage = `Usage: sandkeep logs [options] <sandbox> [command]

Prints the output of a program in a sandbox: the one that was started last, or the one with this id, which may be
shortened. sandkeep ps -a lists them.

Options:
  -f, --follow             go on until the program has ended
${daemonUsage}
Example:
  sandkeep logs -f demo
`;

export async function logsCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = readArgs(args, logsUsage, {
    follow: { type: "boolean", short: "f" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(logsUsage, context);
  const [sandbox, id, ...rest] = positionals;
  if (!sandbox || rest.length > 0)
    throw new CliError(`Cannot show output: name a sandbox, and at most one command\n\n${logsUsage.trimEnd()}`);
  const daemon = new Daemon(values, context);
  const what = `show the output of "${sandbox}"`;
  const named = { params: { sandbox }, query: daemon.scope };
  const { session } = await daemon.askAbout(sandbox, what, daemon.client.call("getSandbox", named));
  const params = { session: session.id, command: await commandNamed(daemon, { sandbox, session: session.id, id }) };
  const { follow = false, json = false } = values;
  const query = { ...daemon.team, follow, encoding: json ? ("text" as const) : ("base64" as const) };
  for await (const line of daemon.client.lines("readOutput", { params, query })) await printOutput(line, json, context);
}

interface Wanted {
  sandbox: string;
  session: string;
  id: string | undefined;
}

/** the id of the newest command, or of the one whose id begins like this */
async function commandNamed(daemon: Daemon, { sandbox, session, id }: Wanted): Promise<string> {
  const found: string[] = [];
  for await (const command of commandsOf(daemon, session)) {
    if (id === undefined || command.id === id) return command.id;
    if (command.id.startsWith(id)) found.push(command.id);
  }
  const [only, another] = found;
  if (only !== undefined && another === undefined) return only;
  const why =
    id === undefined
      ? "no program was started in its current session"
      : found.length === 0
        ? `it has no command "${id}"`
        : `${found.length} commands begin with "${id}"`;
  throw new CliError(`Cannot show output of "${sandbox}": ${why}`, `sandkeep ps -a ${sandbox} lists its programs`);
}
