/** `sandkeep image ls|inspect|history|rm|pull|prune|alias…` on a daemon that the command line, a variable or a context names. */

import { counted } from "../../base/counted.ts";
import { Daemon } from "../client/daemon.ts";
import { type CommandContext, readArgs } from "../command.ts";
import { misuse } from "../errors.ts";
import { historyJson, historyLines, imageTable, shownJson } from "../print/images.ts";
import { shown } from "../print/shown.ts";
import { paperOf } from "../print/table.ts";
import { namesInWords, verbOf } from "../verbs.ts";
import { pullOn } from "./image-pull.ts";

export const imageShowUsage = `Usage:
  sandkeep image ls
  sandkeep image inspect <name>
  sandkeep image history <name>
  sandkeep image rm <name>
  sandkeep image pull <name> [--name <name>] [--no-node]
      a key of a team pulls from the registries that the operator lists, and an admin key from any
  sandkeep image prune
  sandkeep image alias <pattern> <name>
  sandkeep image aliases
  sandkeep image unalias <pattern>
      prune, alias and unalias need an admin key
      all of these ask the daemon that --url, SANDKEEP_URL or a context names; without one, they work on this host's data directory
      (sandkeep image --help)

Options:
  --json                   print JSON
  --name <name>            what a pulled image will be called
  --no-node                leave Sandkeep's own Node out of it
  --team <id or name>      with an admin key: the team whose images they are
  --url <url>              where the daemon is
`;

const options = {
  json: { type: "boolean" },
  name: { type: "string" },
  "no-node": { type: "boolean" },
  team: { type: "string" },
  url: { type: "string" },
} as const;

const operands: Record<string, number> = {
  ...{ ls: 0, inspect: 1, history: 1, rm: 1 },
  ...{ pull: 1, prune: 0, alias: 2, aliases: 0, unalias: 1 },
};

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
  const [given = "", ...names] = positionals;
  const [name = "", image = ""] = names;
  const verb = verbOf(given);
  const wanted = operands[verb] ?? 0;
  if (names.length !== wanted || names.includes("")) {
    throw misuse(`Cannot do "image ${given}": it takes ${namesInWords(wanted)}`, imageShowUsage);
  }
  if (verb !== "pull" && (values.name !== undefined || values["no-node"])) {
    throw misuse(`Cannot do "image ${given}": --name and --no-node are options of pull`, imageShowUsage);
  }
  const daemon = new Daemon(values, context);
  const { json = false } = values;
  if (verb === "ls") return list(daemon, json, context);
  if (verb === "pull") return pullOn(daemon, name, values, context);
  if (verb === "prune") return prune(daemon, json, context);
  if (verb === "aliases") return aliases(daemon, json, context);
  if (verb === "alias") {
    const made = daemon.client.call("putImageAlias", { body: { pattern: name, image } });
    await daemon.ask(`alias "${name}"`, made);
    return context.print(json ? shownJson({ pattern: name, image }) : `${name} is ${image}`);
  }
  if (verb === "unalias") {
    const asked = daemon.client.call("deleteImageAlias", { query: { pattern: name } });
    await daemon.ask(`delete the alias "${name}"`, asked);
    return context.print(json ? shownJson({ pattern: name, deleted: true }) : `${name} is no alias any more`);
  }
  const query = { ...daemon.team, name };
  if (verb === "rm") {
    await daemon.ask(`delete image "${name}"`, daemon.client.call("deleteImage", { query }));
    if (json) return context.print(shownJson({ name, deleted: true }));
    return context.print(`deleted ${name}; sandboxes and snapshots made from it keep the layers that they need`);
  }
  const found = await daemon.ask(`show image "${name}"`, daemon.client.call("getImage", { query }));
  if (verb === "inspect") return context.print(shownJson(found, 2));
  const parts = found.parts?.map(({ diffId, size }) => ({ diffId: diffId.replace(/^sha256:/, ""), size }));
  if (json) return context.print(historyJson(found.history, parts));
  for (const line of historyLines(found.history, parts)) context.print(line);
}

async function prune(daemon: Daemon, json: boolean, context: CommandContext): Promise<void> {
  const what = "delete what no image needs";
  const { layers } = await daemon.ask(what, daemon.client.call("pruneImages"));
  context.print(json ? shownJson({ layers }) : `deleted ${counted(layers, "layer")}`);
}

async function aliases(daemon: Daemon, json: boolean, context: CommandContext): Promise<void> {
  const { aliases: all } = await daemon.ask("list the aliases", daemon.client.call("listImageAliases"));
  if (json) return context.print(shownJson(all));
  for (const { pattern, image, isSetting } of all) {
    context.print(`${shown(pattern)} is ${shown(image)}${isSetting ? "  (a setting of the daemon)" : ""}`);
  }
}

async function list(daemon: Daemon, json: boolean, context: CommandContext): Promise<void> {
  const { images } = await daemon.ask("list the images", daemon.client.call("listImages", { query: daemon.team }));
  if (json) return context.print(shownJson(images));
  const rows = images.map(({ own, ...image }) => ({ ...image, team: own ? "own" : "-" }));
  for (const line of imageTable(rows, paperOf(context.output, context.environment), context.now())) context.print(line);
}
