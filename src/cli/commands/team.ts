/** `sandkeep team` and `sandkeep quota`: teams, and how much of the host each may use. */

import type { Output } from "../../client/types.ts";
import { Daemon, teamOptions, teamOptionsUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse, Refusal } from "../errors.ts";
import { memoryInWords } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { memoryOf, numberOf } from "../units.ts";
import { unknownVerb, verbOf } from "../verbs.ts";

export const teamUsage = `Usage: sandkeep team ls [options]
       sandkeep team create [options] <name>
       sandkeep team rm [--force] [options] <name>

Lists the teams that you may act for, or creates or deletes one, which needs an admin key. Every command takes --team
then. A team is deleted with its keys and projects.

Options:
  -f, --force              rm: also delete its sandboxes, snapshots, drives and images
${teamOptionsUsage}
Example:
  sandkeep team create ml && sandkeep ls --team ml
`;

export const quotaUsage = `Usage: sandkeep quota [options]
       sandkeep quota set [limits] [options]

Shows how much of the host a team uses at once, and how much it may. set replaces its limits, which needs an admin key: a
limit that you leave out does not exist then. With --key it is about the sandboxes that this key made, whose limits count
besides those of its team; a key without limits of its team may set them.

Limits:
  --sandboxes <number>     sandboxes that run or are paused
  --cpus <number>          processors of all of them
  --memory <size>          memory of all of them, such as 16g
  --creates <number>       sandboxes created in a minute
  --disk <size>            files of its sandboxes and snapshots, such as 200g
  --image-disk <size>      disk of its own images, such as 50g; not with --key

Options:
  --key <id>               the key whose quota it is; sandkeep key ls lists them
${teamOptionsUsage}
Example:
  sandkeep quota set --team ml --sandboxes 20 --cpus 16
`;

export async function teamCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, teamUsage, {
    force: { type: "boolean", short: "f" },
    ...teamOptions,
  });
  if (values.help) return showUsage(teamUsage, context);
  const [given = "", slug, ...rest] = positionals;
  const verb = verbOf(given);
  if (verb !== "ls" && verb !== "create" && verb !== "rm")
    throw misuse(unknownVerb("team", given, ["ls", "create", "rm"]), teamUsage);
  if ((verb !== "ls") !== (slug !== undefined) || rest.length > 0)
    throw misuse(`Cannot do "team ${given}": create and rm take one name, ls none`, teamUsage);
  if (values.force && verb !== "rm") throw new CliError(`Cannot use --force with "team ${given}": it is for rm`);
  const daemon = new Daemon(values, context);
  if (slug !== undefined && verb === "rm") {
    const input = { params: { team: slug }, query: { force: values.force ?? false } };
    await daemon.ask(`delete the team "${slug}"`, daemon.client.call("deleteTeam", input)).catch((error) => {
      if (!(error instanceof Refusal && error.status === 409 && !values.force)) throw error;
      throw new CliError(error.message, `sandkeep team rm --force ${slug} deletes them, too`);
    });
    return context.print(values.json ? plainJson({ slug, deleted: true }) : slug) as undefined;
  }
  if (slug !== undefined) {
    const made = await daemon.ask(`make the team "${slug}"`, daemon.client.call("createTeam", { body: { slug } }));
    return context.print(values.json ? plainJson(made) : made.slug) as undefined;
  }
  const pages = pagesOf((query) => daemon.ask("list the teams", daemon.client.call("listTeams", { query })));
  const teams = (await Array.fromAsync(pages)).flatMap((page) => page.teams);
  if (values.json) return context.print(plainJson(teams)) as undefined;
  const rows = teams.map(({ id, slug: name, createdAt }) => [name, id, new Date(createdAt).toISOString().slice(0, 10)]);
  printTable(["NAME", "ID", "CREATED"], rows, context);
}

/** that of a team or of a key, which has no images */
interface AnyQuota {
  limits: Output<"getKeyQuota">["limits"] & { imageDisk?: number | null };
  use: Output<"getKeyQuota">["use"] & { imageDisk?: number };
}

export async function quotaCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, quotaUsage, {
    sandboxes: { type: "string" },
    cpus: { type: "string" },
    memory: { type: "string" },
    creates: { type: "string" },
    disk: { type: "string" },
    "image-disk": { type: "string" },
    key: { type: "string" },
    ...teamOptions,
  });
  if (values.help) return showUsage(quotaUsage, context);
  const [verb, ...rest] = positionals;
  if (verb !== undefined && (verb !== "set" || rest.length > 0))
    throw misuse(unknownVerb("quota", verb, ["set"]), quotaUsage);
  const body = {
    ...(values.sandboxes !== undefined && { sandboxes: numberOf("--sandboxes", values.sandboxes) }),
    ...(values.cpus !== undefined && { vcpus: numberOf("--cpus", values.cpus) }),
    ...(values.memory !== undefined && { memory: memoryOf("--memory", values.memory) }),
    ...(values.creates !== undefined && { createsPerMinute: numberOf("--creates", values.creates) }),
    ...(values.disk !== undefined && { disk: memoryOf("--disk", values.disk) }),
    ...(values["image-disk"] !== undefined && { imageDisk: memoryOf("--image-disk", values["image-disk"]) }),
  };
  if (verb === undefined && Object.keys(body).length > 0)
    throw new CliError("Cannot change the quota", "write sandkeep quota set, and every limit that there is to be");
  const { key } = values;
  if (key !== undefined && body.imageDisk !== undefined)
    throw new CliError("Cannot use --image-disk with --key: images belong to the team");
  const daemon = new Daemon(values, context);
  const { client, team: query } = daemon;
  const what = key === undefined ? "the quota" : `the quota of the key "${key}"`;
  const params = { key: key ?? "" };
  const { limits, use }: AnyQuota = await (verb === "set"
    ? daemon.ask(
        `set ${what}`,
        key === undefined
          ? client.call("setQuota", { query, body })
          : client.call("setKeyQuota", { params, query, body }),
      )
    : daemon.ask(
        `show ${what}`,
        key === undefined ? client.call("getQuota", { query }) : client.call("getKeyQuota", { params, query }),
      ));
  if (values.json) return context.print(plainJson({ limits, use })) as undefined;
  const limit = <T>(value: T | null, print: (value: T) => string) => (value === null ? "none" : print(value));
  const rows = [
    ["sandboxes", String(use.sandboxes), limit(limits.sandboxes, String)],
    ["cpus", String(use.vcpus), limit(limits.vcpus, String)],
    ["memory", memoryInWords(use.memory), limit(limits.memory, memoryInWords)],
    ["creates a minute", String(use.createsPerMinute), limit(limits.createsPerMinute, String)],
    ["disk", memoryInWords(use.disk), limit(limits.disk, memoryInWords)],
    ...(use.imageDisk === undefined
      ? []
      : [["disk of images", memoryInWords(use.imageDisk), limit(limits.imageDisk ?? null, memoryInWords)]]),
  ];
  printTable(["WHAT", "USED", "LIMIT"], rows, context);
}
