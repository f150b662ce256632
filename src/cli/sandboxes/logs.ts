/** `sandkeep logs`: the output of a program that was started in a sandbox. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { allCommandsOf, type CommandOf, commandsOf } from "./list.ts";
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
  const { values, positionals } = await readArgs(args, logsUsage, {
    follow: { type: "boolean", short: "f" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(logsUsage, context);
  const [sandbox, id, ...rest] = positionals;
  if (!sandbox || rest.length > 0)
    throw misuse("Cannot show output: name a sandbox, and at most one command", logsUsage);
  const daemon = new Daemon(values, context);
  const what = `show the output of "${sandbox}"`;
  const named = { params: { sandbox }, query: daemon.scope };
  const found = await daemon.askAbout(sandbox, what, daemon.client.call("getSandbox", named));
  const command = await commandNamed(daemon, found, id);
  const params = { session: command.sessionId, command: command.id };
  const { follow = false, json = false } = values;
  const query = { ...daemon.team, follow, encoding: json ? ("text" as const) : ("base64" as const) };
  for await (const line of daemon.client.lines("readOutput", { params, query })) await printOutput(line, json, context);
}

interface Place {
  id: string;
  name: string;
  session: { id: string };
}

/** the newest command of the current session, or the one of any session whose id begins like this */
async function commandNamed(daemon: Daemon, place: Place, id: string | undefined) {
  const { name: sandbox } = place;
  const found: CommandOf[] = [];
  for await (const command of id === undefined ? commandsOf(daemon, place.session.id) : allCommandsOf(daemon, place)) {
    if (id === undefined || command.id === id) return command;
    if (command.id.startsWith(id)) found.push(command);
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
