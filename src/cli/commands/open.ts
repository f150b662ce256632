/** `sandkeep open`: prints a link that signs a browser in to the dashboard once. */

import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { readArgs } from "../command.ts";
import { misuse } from "../errors.ts";

const openUsage = `Usage: sandkeep open [--json]

Prints a link to the dashboard that signs a browser in once. It is valid for a minute.

Options:
  --json                   print JSON
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  xdg-open "$(sandkeep open)"
`;

interface OpenContext extends KeyPlaces {
  print(line: string): void;
}

const options = { json: { type: "boolean" }, url: { type: "string" }, "data-dir": { type: "string" } } as const;

export async function openCommand(args: string[], context: OpenContext): Promise<void> {
  const { values, positionals } = await readArgs(args, openUsage, options);
  if (values.help) return context.print(openUsage.trimEnd());
  if (positionals.length > 0) throw misuse(`Cannot open "${positionals[0]}"`, openUsage);
  const client = new Client({
    url: daemonUrl(values, context),
    key: apiKey(values["data-dir"], context),
  });
  // The daemon's answer (src/api/dashboard/dashboard.ts).
  const link = (await client.call("open the dashboard", "POST", "/ui/links")) as { url: string; expiresAt: number };
  context.print(values.json ? JSON.stringify(link) : link.url);
}
