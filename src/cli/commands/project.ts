/** `sandkeep project`: the projects of a team. */

import { Daemon } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { verbAndNames } from "../verbs.ts";

const projectUsage = `Usage: sandkeep project ls [options]
       sandkeep project create [options] <name>

Lists the projects of your team that your key may use, the oldest first, or creates one, which needs a key without
limits. A project has its own sandboxes, snapshots, drives and webhooks; --project of other commands names one.

Options:
  --json                   print JSON
  --team <id or name>      with an admin key: the team whose projects they are
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep project create web && sandkeep run --project web -- echo hello
`;

const options = {
  json: { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** how many names each takes */
const verbs = { ls: 0, create: 1 };

export async function projectCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, projectUsage, options);
  if (values.help) return showUsage(projectUsage, context);
  const { verb, names } = verbAndNames("project", positionals, verbs, projectUsage);
  const [name = ""] = names;
  const daemon = new Daemon(values, context);
  const { client, team: query } = daemon;
  if (verb === "create") {
    const asked = client.call("createProject", { query, body: { name } });
    const made = await daemon.ask(`create the project "${name}"`, asked);
    return void context.print(values.json ? plainJson(made) : made.name);
  }
  const pages = pagesOf((page) =>
    daemon.ask("list the projects", client.call("listProjects", { query: { ...query, ...page } })),
  );
  const projects = (await Array.fromAsync(pages)).flatMap((page) => page.projects);
  if (values.json) return void context.print(plainJson(projects));
  const rows = projects.map(({ id, name: called, createdAt }) => [
    called,
    id,
    new Date(createdAt).toISOString().slice(0, 10),
  ]);
  printTable(["NAME", "ID", "CREATED"], rows, context);
}
