/** `sandkeep key`: creates keys with limits, lists them and deletes them. */

import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { readArgs } from "../command.ts";
import { CliError } from "../errors.ts";
import { printTable } from "../print/table.ts";
import { verbAndNames } from "../verbs.ts";

export const keyUsage = `Usage: sandkeep key create <name> [limits]
       sandkeep key ls
       sandkeep key rm <id>

Makes, lists and deletes the keys of your team; list and delete mean the same as ls and rm. A new key's secret is printed once, on standard output.

Limits:
  --project <id or name>       it is for this project only
  --read-only                  it may read everything and change nothing
  --policy-ceiling <policy>    sandboxes that it makes or uses reach no more than this: allow-all, deny-all, or
                               domains and ranges, such as "registry.npmjs.org,*.github.com,203.0.113.0/24"
  --expires <duration>         until when it works: 90m, 12h, 30d

Options:
  --json                       print JSON
  --team <id or name>          with an admin key: the team whose keys they are
  --url <url>                  where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>       where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep key create ci --expires 30d
`;

export interface KeyContext extends KeyPlaces {
  /** ms since 1970 */
  now(): number;
  output: NodeJS.WriteStream;
  print(line: string): void;
  warn(line: string): void;
}

const options = {
  project: { type: "string" },
  "read-only": { type: "boolean" },
  "policy-ceiling": { type: "string" },
  expires: { type: "string" },
  json: { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** how many names each takes */
const verbs = { create: 1, ls: 0, rm: 1 };

// docs/keys.md defines the daemon's answers.
interface Key {
  id: string;
  name: string;
  hint: string;
  projectId: string | null;
  /** whether it may act for every team */
  admin: boolean;
  readOnly: boolean;
  policyCeiling: string | null;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
}

export async function keyCommand(args: string[], context: KeyContext): Promise<void> {
  const { values, positionals } = await readArgs(args, keyUsage, options);
  if (values.help) return context.print(keyUsage.trimEnd());
  const {
    verb,
    names: [name = ""],
  } = verbAndNames("key", positionals, verbs, keyUsage);
  const expiresAt = values.expires === undefined ? undefined : context.now() + durationOf(values.expires);
  const client = new Client({
    url: daemonUrl(values, context),
    key: apiKey(values["data-dir"], context),
  });
  const team = values.team === undefined ? "" : `?${new URLSearchParams({ team: values.team })}`;
  if (verb === "ls") return list(client, team, values.json ?? false, context);
  if (verb === "rm") {
    await client.call(`delete the key "${name}"`, "DELETE", `/sandkeep/v1/keys/${encodeURIComponent(name)}${team}`);
    return context.print(values.json ? JSON.stringify({ id: name, deleted: true }) : name);
  }
  const { key, secret } = (await client.call(`make the key "${name}"`, "POST", `/sandkeep/v1/keys${team}`, {
    name,
    ...(values.project !== undefined && { project: values.project }),
    ...(values["read-only"] && { readOnly: true }),
    ...(values["policy-ceiling"] !== undefined && { policyCeiling: values["policy-ceiling"] }),
    ...(expiresAt !== undefined && { expiresAt }),
  })) as { key: Key; secret: string };
  if (values.json) return context.print(JSON.stringify({ ...key, secret }));
  context.warn(`Made ${key.id} (${limitsOf(key)}); its secret is not shown again:`);
  context.print(secret);
}

async function list(client: Client, team: string, json: boolean, context: KeyContext): Promise<void> {
  const { keys } = (await client.call("list the keys", "GET", `/sandkeep/v1/keys${team}`)) as { keys: Key[] };
  if (json) return context.print(JSON.stringify(keys));
  const titles = ["ID", "NAME", "KEY", "LAST USED", "EXPIRES", "LIMITS"];
  const rows = keys.map((key) => [
    key.id,
    key.name,
    `…${key.hint}`,
    day(key.lastUsedAt),
    day(key.expiresAt),
    limitsOf(key),
  ]);
  printTable(titles, rows, context);
}

export function limitsOf({
  admin,
  projectId,
  readOnly,
  policyCeiling,
}: Pick<Key, "admin" | "projectId" | "readOnly" | "policyCeiling">): string {
  const limits = [
    ...(projectId === null ? [] : [`project ${projectId}`]),
    ...(readOnly ? ["read-only"] : []),
    ...(policyCeiling === null ? [] : [`policy ${policyCeiling}`]),
  ];
  if (limits.length > 0) return limits.join("; ");
  return admin ? "no limits, for every team" : "no limits in its team";
}

function day(at: number | null): string {
  return at === null ? "never" : new Date(at).toISOString().slice(0, 16).replace("T", " ");
}

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

function durationOf(text: string): number {
  const [, count, unit = ""] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const length = Number(count) * (units[unit] ?? 0);
  if (length > 0) return length;
  throw new CliError(`Cannot use --expires "${text}": it must be a duration such as 90m, 12h or 30d`);
}
