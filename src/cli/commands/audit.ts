/** `sandkeep audit`: who changed what. */

import { definedOf } from "../../base/defined.ts";
import type { Input } from "../../client/types.ts";
import { Daemon, teamOptions, teamOptionsUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { durationOf, numberOf } from "../units.ts";

type Outcome = NonNullable<NonNullable<Input<"listAudit">["query"]>["outcome"]>;

export const auditUsage = `Usage: sandkeep audit [options]

Lists the last calls of your team that changed something, the newest first, also those that were refused or failed.

Options:
  --action <name>          only this action, such as sandbox.delete, or all on such a thing with sandbox
  --key <id>               only calls of this key
  --target <name>          only calls about the thing with this name or id
  --outcome <word>         only calls that ended so: done, failed for all others, or a code such as forbidden
  --since <time>           only calls of the last 30m, 6h or 2d
  --limit <number>         how many (50, at most 1000)
  --all-teams              of every team; needs an admin key
${teamOptionsUsage}
Example:
  sandkeep audit --limit 10
  sandkeep audit --action sandbox.delete --since 2d
`;

export async function auditCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, auditUsage, {
    action: { type: "string" },
    key: { type: "string" },
    target: { type: "string" },
    outcome: { type: "string" },
    since: { type: "string" },
    limit: { type: "string" },
    "all-teams": { type: "boolean" },
    ...teamOptions,
  });
  if (values.help) return showUsage(auditUsage, context);
  if (positionals.length > 0) throw misuse("Cannot list the audit: it takes no name", auditUsage);
  if (values.key !== undefined && !values.key.startsWith("key_"))
    throw new CliError(`Cannot use --key "${values.key}": it must be an id of a key`, "sandkeep key ls lists them");
  const limit = numberOf("--limit", values.limit ?? "50");
  const daemon = new Daemon(values, context);
  const { action, key, target, since } = values;
  const query = {
    ...daemon.team,
    limit,
    ...definedOf({ action, key, target }),
    ...(values.outcome !== undefined && {
      // The daemon refuses a word that it does not know, and names those that it does.
      outcome: values.outcome as Outcome,
    }),
    ...(since !== undefined && { from: context.now() - durationOf("--since", since) }),
    ...(values["all-teams"] && { allTeams: true }),
  };
  const { entries } = await daemon.ask("list the audit", daemon.client.call("listAudit", { query }));
  if (values.json) return context.print(plainJson(entries)) as undefined;
  const rows = entries.map(({ at, action, target, outcome, wire, keyId }) => [
    new Date(at).toISOString().replace("T", " ").slice(0, 19),
    action,
    target ?? "-",
    outcome,
    wire ?? "-",
    keyId ?? "-",
  ]);
  const titles = ["TIME", "ACTION", "TARGET", "OUTCOME", "API", "KEY"];
  printTable(titles, rows, context);
}
