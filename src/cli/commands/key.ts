/** `sandkeep key`: creates keys with limits, lists, renames and deletes them. */

import type { Output } from "../../client/types.ts";
import { Daemon } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs } from "../command.ts";
import { CliError } from "../errors.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { durationOf } from "../units.ts";
import { verbAndNames } from "../verbs.ts";

export const keyUsage = `Usage: sandkeep key create <name> [limits]
       sandkeep key ls
       sandkeep key rename <id> <new name>
       sandkeep key rm <id>

Makes, lists, renames and deletes the keys of your team; list and delete mean the same as ls and rm. A new key's secret
is printed once, on standard output. sandkeep quota set --key <id> limits how much of the host a key may use.

Limits:
  --project <id or name>       it is for this project only
  --read-only                  it may read everything and change nothing
  --policy-ceiling <policy>    sandboxes that it makes or uses reach no more than this: allow-all, deny-all, or
                               domains and ranges, such as "registry.npmjs.org,*.github.com,203.0.113.0/24"
  --expires <duration>         until when it works: 90m, 12h, 30d
  --admin                      no limit: it may also act for every other team; needs such a key

Options:
  --json                       print JSON
  --team <id or name>          with an admin key: the team whose keys they are
  --url <url>                  where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>       where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep key create ci --expires 30d
`;

export type KeyContext = Pick<CommandContext, "environment" | "dataDirs" | "now" | "output" | "print" | "warn">;

const limits = {
  project: { type: "string" },
  "read-only": { type: "boolean" },
  "policy-ceiling": { type: "string" },
  expires: { type: "string" },
  admin: { type: "boolean" },
} as const;

const options = {
  ...limits,
  json: { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** how many names each takes */
const verbs = { create: 1, ls: 0, rename: 2, rm: 1 };

type Key = Output<"listKeys">["keys"][number];

export async function keyCommand(args: string[], context: KeyContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, keyUsage, options);
  if (values.help) return void context.print(keyUsage.trimEnd());
  const { verb, names } = verbAndNames("key", positionals, verbs, keyUsage);
  const [name = "", newName = ""] = names;
  const given = Object.keys(limits).find((option) => Object.hasOwn(values, option));
  if (given !== undefined && verb !== "create")
    throw new CliError(`Cannot use --${given} with "key ${verb}": it is for create`);
  const expiresAt = values.expires === undefined ? undefined : context.now() + durationOf("--expires", values.expires);
  const { project: _, ...place } = values;
  const daemon = new Daemon(place, context);
  const { client, team: query } = daemon;
  const named = { params: { key: name }, query };
  const show = (value: object, text: string) => void context.print(values.json ? plainJson(value) : text);
  if (verb === "ls") {
    const pages = pagesOf((page) =>
      daemon.ask("list the keys", client.call("listKeys", { query: { ...query, ...page } })),
    );
    const keys = (await Array.fromAsync(pages)).flatMap((page) => page.keys);
    return values.json ? show(keys, "") : printKeys(keys, context);
  }
  if (verb === "rm") {
    await daemon.ask(`delete the key "${name}"`, client.call("deleteKey", named));
    return show({ id: name, deleted: true }, name);
  }
  if (verb === "rename") {
    const asked = client.call("renameKey", { ...named, body: { name: newName } });
    const renamed = await daemon.ask(`rename the key "${name}"`, asked);
    return show(renamed, renamed.name);
  }
  const body = {
    name,
    ...(values.project !== undefined && { project: values.project }),
    ...(values["read-only"] && { readOnly: true }),
    ...(values["policy-ceiling"] !== undefined && { policyCeiling: values["policy-ceiling"] }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(values.admin && { admin: true }),
  };
  const { key, secret } = await daemon.ask(`make the key "${name}"`, client.call("createKey", { query, body }));
  if (!values.json) context.warn(`Made ${key.id} (${limitsOf(key)}); its secret is not shown again:`);
  return show({ ...key, secret }, secret);
}

function printKeys(keys: Key[], context: KeyContext): undefined {
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
  const found = [
    ...(projectId === null ? [] : [`project ${projectId}`]),
    ...(readOnly ? ["read-only"] : []),
    ...(policyCeiling === null ? [] : [`policy ${policyCeiling}`]),
  ];
  if (found.length > 0) return found.join("; ");
  return admin ? "no limits, for every team" : "no limits in its team";
}

function day(at: number | null): string {
  return at === null ? "never" : new Date(at).toISOString().slice(0, 16).replace("T", " ");
}
