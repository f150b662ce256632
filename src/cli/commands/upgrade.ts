/** `sandkeep upgrade`: replaces processes that outlived an upgrade of the package, and lists those that still wait. */

import type { Output } from "../../client/types.ts";
import type { KeyPlaces } from "../client/connection.ts";
import { Daemon } from "../client/daemon.ts";
import { readArgs } from "../command.ts";
import { misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";

export const upgradeUsage = `Usage: sandkeep upgrade [--json]

After an upgrade of the package and a restart of the daemon, replaces the processes of the earlier build that still run:

  - the egress process, at once: connections that sandboxes have open to the outside are cut off
  - the launcher, if no sandbox runs; otherwise the daemon does so when the last one ends

Prints what was replaced and what still waits.

Options:
  --json                   print JSON
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep upgrade
`;

export interface UpgradeContext extends KeyPlaces {
  print(line: string): void;
}

const options = { json: { type: "boolean" }, url: { type: "string" }, "data-dir": { type: "string" } } as const;

export async function upgradeCommand(args: string[], context: UpgradeContext): Promise<void> {
  const { values, positionals } = await readArgs(args, upgradeUsage, options);
  if (values.help) return context.print(upgradeUsage.trimEnd());
  if (positionals.length > 0) throw misuse(`Cannot upgrade "${positionals[0]}"`, upgradeUsage);
  const daemon = new Daemon(values, context);
  const done = await daemon.ask("upgrade", daemon.client.call("upgradeHost"));
  if (values.json) return context.print(plainJson(done));
  for (const line of report(done)) context.print(line);
}

function report({ replaced, waiting }: Output<"upgradeHost">): string[] {
  const lines = [
    ...(replaced.launcher === undefined ? [] : [`Replaced the launcher (process ${replaced.launcher})`]),
    ...(replaced.egress === undefined
      ? []
      : [
          `Replaced the egress process (process ${replaced.egress}): what sandboxes had open to the outside is cut off`,
        ]),
    ...(waiting.launcher ? [...sandboxesOn(waiting.launcher.sandboxes), later("launcher", waiting.launcher.pid)] : []),
    ...(waiting.egress ? [later("egress process", waiting.egress.pid)] : []),
  ];
  return lines.length > 0 ? lines : ["Every process is of the daemon's build"];
}

function sandboxesOn(names: string[]): string[] {
  if (names.length === 0) return [];
  const count = names.length === 1 ? "1 sandbox still runs" : `${names.length} sandboxes still run`;
  return [`${count} on the launcher of an earlier build: ${names.join(", ")}`];
}

function later(part: string, pid: number): string {
  return `The daemon replaces the ${part} (process ${pid}) when the last sandbox ends`;
}
