/** `sandkeep drive`: durable volumes that sandboxes mount. */

import { sizeInWords } from "../../base/size-in-words.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { pagesOf } from "../client/pages.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { memoryInWords } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";
import { briefly, printTable } from "../print/table.ts";
import { bytesOf } from "../units.ts";
import { verbAndNames } from "../verbs.ts";

export const driveUsage = `Usage: sandkeep drive ls [options]
       sandkeep drive create [--size <size>] [options] <name>
       sandkeep drive resize --size <size> [options] <name>
       sandkeep drive fork [options] <name> <new name>
       sandkeep drive rm [options] <name>

Lists, creates, resizes, copies and deletes drives. sandkeep run --drive <name>:<path> mounts one.

Options:
  --size <size>            most that its files may take, such as 10g
${daemonUsage}
Example:
  sandkeep drive create cache --size 10g && sandkeep run --drive cache:/cache -- ls /cache
`;

/** how many names each takes */
const verbs = { ls: 0, create: 1, resize: 1, fork: 2, rm: 1 };

export async function driveCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, driveUsage, { size: { type: "string" }, ...daemonOptions });
  if (values.help) return showUsage(driveUsage, context);
  const { verb, names } = verbAndNames("drive", positionals, verbs, driveUsage);
  if (values.size !== undefined && verb !== "create" && verb !== "resize")
    throw new CliError(`Cannot use --size with "drive ${verb}": it is for create and resize`);
  const maxSize = values.size === undefined ? undefined : bytesOf("--size", values.size);
  const daemon = new Daemon(values, context);
  const { client, scope: query } = daemon;
  const [drive = "", name = ""] = names;
  const named = { params: { drive }, query };
  const show = (made: { name: string }) => context.print(values.json ? plainJson(made) : made.name) as undefined;
  if (verb === "ls") return list(daemon, values.json ?? false, context);
  if (verb === "create") {
    const body = maxSize === undefined ? {} : { maxSize };
    const made = await daemon.ask(`create the drive "${drive}"`, client.call("putDrive", { ...named, body }));
    // One of this name is returned as it is.
    if (maxSize !== undefined && made.maxSize !== maxSize) {
      const resize = `sandkeep drive resize ${drive} --size changes that`;
      context.warn(`The drive "${drive}" exists already and has ${limitInWords(made.maxSize)}; ${resize}`);
    }
    return show(made);
  }
  if (verb === "fork")
    return show(await daemon.ask(`fork the drive "${drive}"`, client.call("forkDrive", { ...named, body: { name } })));
  if (verb === "rm") {
    await daemon.ask(`delete the drive "${drive}"`, client.call("deleteDrive", named));
    return context.print(values.json ? plainJson({ name: drive, deleted: true }) : drive) as undefined;
  }
  if (maxSize === undefined) throw new CliError(`Cannot resize the drive "${drive}": give its --size`);
  return show(
    await daemon.ask(`resize the drive "${drive}"`, client.call("resizeDrive", { ...named, body: { maxSize } })),
  );
}

async function list(daemon: Daemon, json: boolean, context: CommandContext): Promise<undefined> {
  const pages = pagesOf((query) =>
    daemon.ask("list the drives", daemon.client.call("listDrives", { query: { ...daemon.scope, ...query } })),
  );
  const found = (await Array.fromAsync(pages)).flatMap(({ drives }) => drives);
  if (json) return context.print(plainJson(found)) as undefined;
  const rows = found.map((each) => [
    each.name,
    limitInWords(each.maxSize),
    each.sandbox ?? "-",
    briefly(context.now() - each.createdAt),
  ]);
  printTable(["NAME", "SIZE", "SANDBOX", "AGE"], rows, context);
}

/** in the units that --size takes; sizes that other clients chose may have no whole number of these */
function limitInWords(bytes: number): string {
  return bytes % 2 ** 20 === 0 ? memoryInWords(bytes / 2 ** 20) : sizeInWords(bytes);
}
