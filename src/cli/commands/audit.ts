/** `sandkeep audit`: who changed what. */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { numberOf } from "../units.ts";

export const auditUsage = `Usage: sandkeep audit [options]

Lists the last calls of your team that changed something, the newest first, also those that were refused or failed.

Options:
  --limit <number>         how many (50, at most 500)
  --all-teams              of every team; needs an admin key
${daemonUsage}
Example:
  sandkeep audit --limit 10
`;

export async function auditCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, auditUsage, {
    limit: { type: "string" },
    "all-teams": { type: "boolean" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(auditUsage, context);
  if (positionals.length > 0) throw misuse("Cannot list the audit: it takes no name", auditUsage);
  const limit = numberOf("--limit", values.limit ?? "50");
  const daemon = new Daemon(values, context);
  const query = { ...daemon.team, limit, ...(values["all-teams"] && { allTeams: true }) };
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
