/** `sandkeep image ls|inspect|history|rm` on a daemon that the command line, a variable or a context names. */

import { Daemon } from "../client/daemon.ts";
import { type CommandContext, readArgs } from "../command.ts";
import { misuse } from "../errors.ts";
import { historyJson, historyLines, imageTable, shownJson } from "../print/images.ts";
import { paperOf } from "../print/table.ts";
import { verbOf } from "../verbs.ts";

export const imageShowUsage = `Usage:
  sandkeep image ls
  sandkeep image inspect <name>
  sandkeep image history <name>
  sandkeep image rm <name>
      these ask the daemon that --url, SANDKEEP_URL or a context names; without one, they work on this host's data directory
      (sandkeep image --help)

Options:
  --json                   print JSON
  --team <id or name>      with an admin key: the team whose images they are
  --url <url>              where the daemon is
`;

const options = {
  json: { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
} as const;

const operands: Record<string, number> = { ls: 0, inspect: 1, history: 1, rm: 1 };

/** whether a `sandkeep image` command is one of these, and names a daemon; `isOther`: the settings name one elsewhere */
export function asksDaemon(args: string[], isOther: () => boolean): boolean {
  const [verb = ""] = args.filter((word) => !word.startsWith("-"));
  if (!Object.hasOwn(operands, verbOf(verb))) return false;
  const names = (option: string) => args.some((word) => word === option || word.startsWith(`${option}=`));
  return names("--url") || (!names("--data-dir") && !names("--run-dir") && isOther());
}

export async function imageShowCommand(args: string[], context: CommandContext): Promise<void> {
  const { values, positionals } = await readArgs(args, imageShowUsage, options);
  if (values.help) return context.print(imageShowUsage.trimEnd());
  const [given = "", name = "", ...rest] = positionals;
  const verb = verbOf(given);
  const wanted = operands[verb] ?? 0;
  if (rest.length > 0 || (name === "" ? 0 : 1) !== wanted) {
    throw misuse(`Cannot do "image ${given}": it takes ${wanted === 0 ? "no name" : "one name"}`, imageShowUsage);
  }
  const daemon = new Daemon(values, context);
  if (verb === "ls") return list(daemon, values.json ?? false, context);
  const query = { ...daemon.team, name };
  if (verb === "rm") {
    await daemon.ask(`delete image "${name}"`, daemon.client.call("deleteImage", { query }));
    if (values.json) return context.print(shownJson({ name, deleted: true }));
    return context.print(`deleted ${name}; sandboxes and snapshots made from it keep the layers that they need`);
  }
  const image = await daemon.ask(`show image "${name}"`, daemon.client.call("getImage", { query }));
  if (verb === "inspect") return context.print(shownJson(image, 2));
  const parts = image.parts?.map(({ diffId, size }) => ({ diffId: diffId.replace(/^sha256:/, ""), size }));
  if (values.json) return context.print(historyJson(image.history, parts));
  for (const line of historyLines(image.history, parts)) context.print(line);
}

async function list(daemon: Daemon, json: boolean, context: CommandContext): Promise<void> {
  const { images } = await daemon.ask("list the images", daemon.client.call("listImages", { query: daemon.team }));
  if (json) return context.print(shownJson(images));
  const rows = images.map(({ own, ...image }) => ({ ...image, team: own ? "own" : "-" }));
  for (const line of imageTable(rows, paperOf(context.output, context.environment), context.now())) context.print(line);
}
