/** `sandkeep ls` and `sandkeep ps`: lists of sandboxes, and of the programs in them. */

import type { Output } from "../../client/types.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { memoryInWords, shellWord } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";
import { briefly, printTable, stateCell } from "../print/table.ts";

export const lsUsage = `Usage: sandkeep ls [options]

Lists the sandboxes of a project, the newest first.

Options:
  --state <state>          only those in this state, such as running, paused or stopped; may be repeated
  --prefix <text>          only those whose name begins with this
  -q, --quiet              print only their names
${daemonUsage}
Example:
  sandkeep rm -f $(sandkeep ls -q --prefix test-)
`;

export const psUsage = `Usage: sandkeep ps [options] [sandbox]

Lists the programs that were started in a sandbox and still run, or those in all running sandboxes.

Options:
  -a, --all                also list programs that have ended, and those of earlier sessions
${daemonUsage}
Example:
  sandkeep ps -a demo
`;

const states = ["pending", "running", "paused", "snapshotting", "stopping", "stopped", "failed", "aborted"] as const;

export async function lsCommand(args: string[], context: CommandContext): Promise<undefined> {
  const options = {
    state: { type: "string", multiple: true },
    prefix: { type: "string" },
    quiet: { type: "boolean", short: "q" },
    ...daemonOptions,
  } as const;
  const all = "ls lists stopped sandboxes too; --state running leaves them out";
  const { values, positionals } = await readArgs(args, lsUsage, options, { "-a": all, "--all": all });
  if (values.help) return showUsage(lsUsage, context);
  if (positionals.length > 0) throw misuse("Cannot list sandboxes: ls takes no name", lsUsage);
  const daemon = new Daemon(values, context);
  const found = await Array.fromAsync(
    sandboxesOf(daemon, {
      ...(values.state && { state: values.state.map(stateNamed) }),
      ...(values.prefix !== undefined && { namePrefix: values.prefix }),
    }),
  );
  const { print } = context;
  if (values.json) return print(plainJson(found)) as undefined;
  if (values.quiet) {
    for (const { name } of found) print(name);
    return;
  }
  const rows = found.map((each) => [
    each.name,
    stateCell(each.state),
    each.image,
    String(each.vcpus),
    memoryInWords(each.memory),
    briefly(context.now() - each.createdAt),
    each.session.expiresAt === null ? "-" : briefly(each.session.expiresAt - context.now()),
    each.ports.map(({ port }) => port).join(",") || "-",
  ]);
  const titles = ["NAME", "STATE", "IMAGE", "CPUS", "MEMORY", "AGE", "ENDS IN", "PORTS"];
  printTable(titles, rows, context);
}

export async function psCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, psUsage, {
    all: { type: "boolean", short: "a" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(psUsage, context);
  const [name, ...rest] = positionals;
  if (rest.length > 0) throw misuse("Cannot list programs: give one name or none", psUsage);
  const daemon = new Daemon(values, context);
  const sandboxes =
    name === undefined
      ? await Array.fromAsync(sandboxesOf(daemon, { state: ["running"] }))
      : [
          await daemon.askAbout(
            name,
            `list the programs of "${name}"`,
            daemon.client.call("getSandbox", { params: { sandbox: name }, query: daemon.scope }),
          ),
        ];
  const found: (CommandOf & { sandbox: string })[] = [];
  for (const { name: sandbox, id, session } of sandboxes) {
    const commands = values.all ? allCommandsOf(daemon, { name: sandbox, id }) : commandsOf(daemon, session.id);
    for await (const command of commands)
      if (values.all || command.endedAt === null) found.push({ sandbox, ...command });
  }
  if (values.json) return context.print(plainJson(found)) as undefined;
  const rows = found.map(({ sandbox, id, startedAt, endedAt, exitCode, command, args: words }) => [
    sandbox,
    id,
    endedAt === null ? { text: "running", colour: "green" as const } : `exited ${exitCode ?? "?"}`,
    briefly((endedAt ?? context.now()) - startedAt),
    [command, ...words].map(shellWord).join(" "),
  ]);
  const titles = ["SANDBOX", "ID", "STATE", "TIME", "PROGRAM"];
  printTable(titles, rows, context);
}

interface Filter {
  state?: (typeof states)[number][];
  namePrefix?: string;
}

/** all sandboxes, read page by page */
export async function* sandboxesOf(daemon: Daemon, filter: Filter = {}) {
  const pages = pagesOf((query) =>
    daemon.ask(
      "list the sandboxes",
      daemon.client.call("listSandboxes", { query: { ...daemon.scope, ...filter, ...query } }),
    ),
  );
  for await (const { sandboxes } of pages) yield* sandboxes;
}

export type CommandOf = Output<"listCommands">["commands"][number];

/** the commands of a session, the newest first */
export async function* commandsOf(daemon: Daemon, session: string): AsyncGenerator<CommandOf> {
  const pages = pagesOf((query) =>
    daemon.ask(
      "list the programs",
      daemon.client.call("listCommands", { params: { session }, query: { ...daemon.team, ...query } }),
    ),
  );
  for await (const { commands } of pages) yield* commands;
}

/** the commands of all sessions of a sandbox, the newest first */
export async function* allCommandsOf(daemon: Daemon, { name, id }: { name: string; id: string }) {
  const pages = pagesOf((query) =>
    daemon.ask(
      "list the sessions",
      daemon.client.call("listSessions", { query: { ...daemon.scope, sandbox: name, ...query } }),
    ),
  );
  for await (const { sessions } of pages)
    for (const session of sessions) {
      // The older ones are of a deleted sandbox that had the name before.
      if (session.sandboxId !== id) return;
      yield* commandsOf(daemon, session.id);
    }
}

function stateNamed(text: string): (typeof states)[number] {
  const found = states.find((state) => state === text);
  if (found) return found;
  throw new CliError(`Cannot use --state "${text}": it must be one of ${states.join(", ")}`);
}
