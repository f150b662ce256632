/** `sandkeep diff`: the files that changed in a sandbox since a snapshot, or from one snapshot to another. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plain, plainJson } from "../print/plain.ts";
import { snapshotNamed } from "./snapshots.ts";

export const diffUsage = `Usage: sandkeep diff [options] <sandbox> [snapshot [snapshot]]

Lists the files that were added (A), modified (M) or deleted (D) in a sandbox since a snapshot, by default its newest one.
With two snapshots it lists what changed from the first to the second. A snapshot is named by its id or its name.

Options:
${daemonUsage}
Example:
  sandkeep diff demo before-upgrade
`;

const letters = { added: "A", changed: "M", removed: "D" };

export async function diffCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, diffUsage, daemonOptions);
  if (values.help) return showUsage(diffUsage, context);
  const [sandbox, from, to, ...rest] = positionals;
  if (!sandbox || rest.length > 0) throw misuse("Cannot compare: name a sandbox, and at most two snapshots", diffUsage);
  const daemon = new Daemon(values, context);
  const what = `compare "${sandbox}"`;
  const snapshot = from === undefined ? await newest(daemon, sandbox, what) : await snapshotNamed(daemon, from, what);
  const other = to === undefined ? { sandbox } : { to: await snapshotNamed(daemon, to, what) };
  const found = [];
  let isTruncated = false;
  const pages = pagesOf((query) => {
    const input = { params: { snapshot }, query: { ...daemon.scope, ...other, ...query } };
    return daemon.askAbout(sandbox, what, daemon.client.call("compareSnapshot", input));
  });
  for await (const { changes, truncated } of pages) {
    if (values.json) found.push(...changes);
    else for (const { change, path } of changes) context.print(`${letters[change]}  ${plain(path)}`);
    isTruncated ||= truncated;
  }
  if (values.json) context.print(plainJson(found));
  if (isTruncated) context.warn("Not all were compared: a directory has more than 20,000 files, or a path is too long");
}

async function newest(daemon: Daemon, sandbox: string, what: string): Promise<string> {
  const query = { ...daemon.scope, sandbox, limit: 1 };
  const { snapshots } = await daemon.askAbout(sandbox, what, daemon.client.call("listSnapshots", { query }));
  const [last] = snapshots;
  if (last) return last.id;
  throw new CliError(`Cannot ${what}: it has no snapshot`, `sandkeep snapshot create ${sandbox} makes one`);
}
