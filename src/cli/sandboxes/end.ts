/** `sandkeep stop` and `sandkeep rm`: stop sandboxes, and delete them. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage, someNames } from "../command.ts";
import { CliError } from "../errors.ts";
import { shellWord } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";
import { durationOf } from "../units.ts";

export const stopUsage = `Usage: sandkeep stop [options] <sandbox>...

Stops sandboxes. The files of a persistent one are kept, and sandkeep shell or exec starts it again. Prints the name of
each that has stopped.

Options:
  --grace <duration>       let its programs end by themselves first, for at most this long, such as 10s
${daemonUsage}
Example:
  sandkeep stop demo
`;

export const rmUsage = `Usage: sandkeep rm [options] <sandbox>...

Deletes sandboxes with their files. Prints the name of each that is gone.

Options:
  -f, --force              also delete those that run
  --snapshots              delete their snapshots, too
${daemonUsage}
Example:
  sandkeep rm -f demo
`;

export async function stopCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { values, positionals } = await readArgs(args, stopUsage, { grace: { type: "string" }, ...daemonOptions });
  if (values.help) return showUsage(stopUsage, context);
  const names = someNames(positionals, "stop a sandbox", stopUsage);
  const grace = values.grace === undefined ? undefined : durationOf("--grace", values.grace);
  const daemon = new Daemon(values, context);
  return forEach(names, context, async (sandbox) => {
    const input = { params: { sandbox }, query: { ...daemon.scope, ...(grace !== undefined && { grace }) } };
    const stopped = await daemon.askAbout(sandbox, `stop "${sandbox}"`, daemon.client.call("stopSession", input));
    context.print(values.json ? plainJson(stopped) : sandbox);
  });
}

/** most snapshots that are counted: the items of one page */
const mostCounted = 500;

/** states in which a sandbox holds no machine */
const ended = ["stopped", "failed", "aborted"];

export async function rmCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { values, positionals } = await readArgs(args, rmUsage, {
    force: { type: "boolean", short: "f" },
    snapshots: { type: "boolean" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(rmUsage, context);
  const names = someNames(positionals, "delete a sandbox", rmUsage);
  const { force = false, snapshots = false } = values;
  const daemon = new Daemon(values, context);
  return forEach(names, context, async (sandbox) => {
    const what = `delete "${sandbox}"`;
    const named = { params: { sandbox }, query: daemon.scope };
    const { state, id } = await daemon.askAbout(sandbox, what, daemon.client.call("getSandbox", named));
    if (!force && !ended.includes(state))
      throw new CliError(`Cannot ${what}: it is ${state}`, `sandkeep rm -f ${sandbox} deletes it nevertheless`);
    await daemon.ask(what, daemon.client.call("deleteSandbox", { ...named, query: { ...daemon.scope, snapshots } }));
    context.print(values.json ? plainJson({ id, name: sandbox, deleted: true }) : sandbox);
    if (!snapshots) await sayWhatStays(daemon, { name: sandbox, id }, context);
  });
}

/** snapshots cost disk space, and a sandbox that is gone from the list hides them */
async function sayWhatStays(daemon: Daemon, { name, id }: { name: string; id: string }, { warn }: CommandContext) {
  const query = { ...daemon.scope, sandbox: name, limit: mostCounted };
  const page = await daemon.client.call("listSnapshots", { query }).catch(() => ({ snapshots: [], next: null }));
  const { length } = page.snapshots.filter(({ sandboxId }) => sandboxId === id);
  if (length === 0) return;
  const count = page.next === null ? String(length) : `At least ${length}`;
  const [stay, them] = length === 1 ? ["snapshot stays", "it"] : ["snapshots stay", "them"];
  warn(`${count} ${stay}: sandkeep snapshot ls ${shellWord(name)} lists ${them}`);
}

/** Goes on after a failure, as rm does; the exit code is then 1. */
async function forEach(names: string[], { warn }: CommandContext, act: (name: string) => Promise<void>) {
  let code: number | undefined;
  for (const name of names) {
    try {
      await act(name);
    } catch (error) {
      if (!(error instanceof CliError) || names.length === 1) throw error;
      warn(error.message);
      code = 1;
    }
  }
  return code;
}
