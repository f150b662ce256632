/** `sandkeep image …`: brings images into this host's data directory, and lists, names and deletes them. */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { counted } from "../../base/counted.ts";
import { optionProblem } from "../../base/similar.ts";
import { defaultTeam } from "../../core/access/access.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { imageKey } from "../../core/model/image.ts";
import { stepsOwner } from "../../runtime/linux/builds/image-builds.ts";
import { buildDebian } from "../../runtime/linux/images/debian.ts";
import { hostImage } from "../../runtime/linux/images/images.ts";
import { importImage } from "../../runtime/linux/oci/import.ts";
import { pruneDownloads } from "../../runtime/linux/registry/downloads.ts";
import { recipes } from "../image-recipes.ts";
import { plainJson } from "../print/plain.ts";
import type { Paper } from "../print/table.ts";
import { namesInWords, unknownVerb, verbOf } from "../verbs.ts";
import { type PullContext, pull } from "./image-pull.ts";
import {
  asJson,
  described,
  history,
  historyAsJson,
  imageNamed,
  inspected,
  listed,
  listedAsJson,
} from "./image-show.ts";
import type { OfflineStore } from "./offline-store.ts";

export const imageUsage = `Usage:
  sandkeep image pull <name> [--name <name>] [--team <team>] [--no-node]
      <name>: registry/repository:tag or registry/repository@sha256:…; without a registry, docker.io
  sandkeep image import <path> [--name <name>] [--team <team>] [--no-node]
      <path>: an OCI layout (directory or tar), a docker save tar, or the tar of a root file system (with --name);
      - reads a tar from standard input; tars may be compressed with gzip or zstd
  sandkeep image build debian|code-interpreter|desktop [--name <name>] [--suite <suite>] [--include <package,…>]
      [--no-node]
      a Debian with what every sandbox has; code-interpreter adds Jupyter's Python kernel and libraries for data, and is
      called code-interpreter-v1; desktop adds Xfce, browsers and a VNC server
  sandkeep image build [-t <name>] <directory>
      builds from a Dockerfile, in sandboxes of the running daemon; sandkeep image build --help says more
  sandkeep image from-snapshot <snapshot> <name>
  sandkeep image export <name> [-o <file>]
      both ask the running daemon
  sandkeep image ls [--team <team>]
  sandkeep image inspect <name> [--team <team>]
  sandkeep image history <name> [--team <team>]
  sandkeep image rm <name> [--team <team>]
      frees its disk space at once, except what sandboxes and snapshots need
  sandkeep image prune
      deletes what no image, sandbox or snapshot needs, and downloads that were cut off
  sandkeep image alias <pattern> <name>
      lets callers find an image under another name too; a * in the pattern stands for any text
  sandkeep image aliases
  sandkeep image unalias <pattern>

list and delete mean the same as ls and rm. With --url, or where a variable or a context names another daemon, ls, inspect,
history, rm, pull, prune, alias, aliases and unalias ask that daemon (sandkeep image ls --url … --help). Without --team, a name means this host's image or, if there is none, the one
that a team has.

Options:
  --json                   print JSON
  --team <id>              the id of the team whose image it is
  --data-dir <directory>   where Sandkeep keeps everything (SANDKEEP_DATA_DIR, /var/lib/sandkeep)
  --run-dir <directory>    where its sockets are (SANDKEEP_RUN_DIR, /run/sandkeep)

Example:
  sandkeep image pull docker.io/library/python:3.13 && sandkeep run python:3.13 python3 --version
`;

/** What a command reads and writes besides the store. */
export interface ImageContext extends Omit<PullContext, "registries"> {
  /** the registries to pull from */
  registries(dataDir: string | undefined): ReturnType<PullContext["registries"]>;
  /** `create`: makes a missing data directory */
  open(places: { dataDir: string | undefined; runDir: string | undefined; create: boolean }): Promise<OfflineStore>;
  input: AsyncIterable<Uint8Array>;
  /** what tables are printed on; default no terminal */
  paper?: Paper;
  print(line: string): void;
}

export async function imageCommand(args: string[], context: ImageContext): Promise<void> {
  const { values, positionals } = parse(args);
  const [verb = "", ...rest] = positionals;
  if (values.help || args.length === 0) return context.print(imageUsage.trimEnd());
  const command = Object.hasOwn(commands, verbOf(verb)) ? commands[verbOf(verb)] : undefined;
  if (!command) throw usageError(unknownVerb("image", verb, [...Object.keys(commands), ...ofDaemon]));
  if (rest.length !== command.operands)
    throw usageError(`Cannot do "image ${verb}": it takes ${namesInWords(command.operands)}`);
  const given = own.find((option) => values[option] !== undefined && !command.takes?.includes(option));
  if (given !== undefined) {
    const takers = Object.keys(commands).filter((each) => commands[each]?.takes?.includes(given));
    throw usageError(`Cannot use --${given} with "image ${verb}": it is for ${takers.join(", ")}`);
  }
  const create = command.makesStore ?? false;
  const store = await context.open({ dataDir: values["data-dir"], runDir: values["run-dir"], create });
  try {
    await command.run({ store, context, values, operand: rest[0] ?? "", second: rest[1] ?? "" });
  } finally {
    await store.close();
  }
}

/** verbs that the running daemon carries out (image-build.ts) */
const ofDaemon = ["from-snapshot", "export"];

const options = {
  help: { type: "boolean", short: "h" },
  json: { type: "boolean" },
  "data-dir": { type: "string" },
  "run-dir": { type: "string" },
  name: { type: "string" },
  suite: { type: "string" },
  include: { type: "string" },
  team: { type: "string" },
  "no-node": { type: "boolean" },
} as const;

interface Job {
  store: OfflineStore;
  context: ImageContext;
  values: ReturnType<typeof parse>["values"];
  operand: string;
  second: string;
}

/** options that only some verbs take */
const own = ["name", "suite", "include", "team", "no-node"] as const;

interface ImageCommand {
  operands: number;
  /** which of them it takes */
  takes?: readonly (typeof own)[number][];
  /** whether it makes a missing data directory */
  makesStore?: boolean;
  run(job: Job): Promise<void>;
}

const commands: Record<string, ImageCommand> = {
  pull: {
    operands: 1,
    takes: ["name", "team", "no-node"],
    makesStore: true,
    async run({ store, context, values, operand }) {
      const registries = () => context.registries(values["data-dir"]);
      const { image, isNew } = await pull(store, { ...context, registries }, operand, shared(values, context));
      if (values.json) return context.print(await asJson(store, image, { isNew }));
      context.print(`${await described(store, image)}${isNew ? "" : "  (it was here already)"}`);
    },
  },
  import: {
    operands: 1,
    takes: ["name", "team", "no-node"],
    makesStore: true,
    async run({ store, context, values, operand }) {
      const source = operand === "-" ? context.input : operand;
      const image = await importImage(store, source, shared(values, context));
      context.print(values.json ? await asJson(store, image) : await described(store, image));
    },
  },
  build: {
    operands: 1,
    takes: ["name", "suite", "include", "team", "no-node"],
    makesStore: true,
    async run({ store, context, values, operand }) {
      const recipe = recipes.find(({ operand: name }) => name === operand);
      if (!recipe) {
        const names = recipes.map(({ operand: name }) => `"${name}"`).join(", ");
        throw usageError(`Cannot build "${operand}": only ${names} can be built`);
      }
      const wanted = values.include?.split(",").filter((name) => name !== "") ?? [];
      const { links, etc } = recipe;
      const packages = [...recipe.packages, ...wanted];
      const options = { ...shared(values, context), name: values.name ?? recipe.name };
      const image = await buildDebian(store, { suite: values.suite, packages, links, etc, ...options });
      context.print(values.json ? await asJson(store, image) : await described(store, image));
    },
  },
  ls: { operands: 0, takes: ["team"], run: list },
  inspect: {
    operands: 1,
    takes: ["team"],
    async run({ store, context, values, operand }) {
      context.print(await inspected(store, await imageNamed(store, operand, values)));
    },
  },
  history: {
    operands: 1,
    takes: ["team"],
    async run({ store, context, values, operand }) {
      const image = await imageNamed(store, operand, values);
      if (values.json) return context.print(historyAsJson(image));
      for (const line of history(image)) context.print(line);
    },
  },
  rm: { operands: 1, takes: ["team"], run: remove },
  prune: {
    operands: 0,
    async run({ store, context, values }) {
      await pruneDownloads(join(store.store, "downloads"));
      const count = await store.collect();
      if (values.json) return context.print(plainJson({ layers: count ?? null }));
      const later =
        "deleted interrupted downloads; layers that nothing needs are deleted by the daemon, now or when it runs";
      context.print(count === undefined ? later : `deleted ${counted(count, "layer")}`);
    },
  },
  alias: {
    operands: 2,
    async run({ store, context, values, operand, second }) {
      await store.images.setAlias(operand, second);
      context.print(values.json ? plainJson({ pattern: operand, image: second }) : `${operand} is ${second}`);
    },
  },
  aliases: {
    operands: 0,
    async run({ store, context, values }) {
      const all = Object.entries(await store.images.aliases());
      if (values.json) return context.print(plainJson(all.map(([pattern, image]) => ({ pattern, image }))));
      for (const [pattern, image] of all) context.print(`${pattern} is ${image}`);
    },
  },
  unalias: {
    operands: 1,
    async run({ store, context, values, operand }) {
      await store.images.deleteAlias(operand);
      const text = `${operand} is no alias any more`;
      context.print(values.json ? plainJson({ pattern: operand, deleted: true }) : text);
    },
  },
};

async function list({ store, context, values }: Job): Promise<void> {
  // Those of this host are every team's.
  const isShown = (owner?: string) => values.team === undefined || owner === undefined || owner === values.team;
  const images = (await store.images.list()).filter(({ owner }) => owner !== stepsOwner && isShown(owner));
  if (values.json) return context.print(await listedAsJson(store, images));
  const { paper = { colours: false } } = context;
  for (const line of await listed(store, images, paper, Date.now())) context.print(line);
}

async function remove({ store, context, values, operand }: Job): Promise<void> {
  if (operand === hostImage && values.team === undefined) {
    throw new SandkeepError(
      "invalid",
      `Cannot delete image "${hostImage}": it is this host's own /usr, and made at every start`,
    );
  }
  const image = await imageNamed(store, operand, { team: values.team, verb: "delete" });
  await store.images.delete(imageKey(image));
  // A running daemon notices the change, and collects too.
  await store.collect();
  const { name, owner } = image;
  if (values.json) return context.print(plainJson({ name, owner, deleted: true }));
  context.print(`deleted ${operand}; sandboxes and snapshots made from it keep the layers that they need`);
}

function shared(values: Job["values"], context: ImageContext) {
  return {
    progress: (line: string) => context.progress(line),
    name: values.name,
    owner: values.team,
    ...(values["no-node"] && { node: false as const }),
  };
}

function parse(args: string[]) {
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    // Images belong to a team's id. Only the database, which the daemon has open, knows the names of other teams.
    const team = values.team === defaultTeam.slug ? defaultTeam.id : values.team;
    return { values: { ...values, ...(team !== undefined && { team }) }, positionals };
  } catch (cause) {
    throw usageError(optionProblem(cause, Object.keys(options)));
  }
}

/** with the forms of the command, and not with all of its help */
function usageError(message: string): SandkeepError {
  const [forms] = imageUsage.split("\n\n", 1);
  return new SandkeepError("invalid", `${message}\n\n${forms}\nhint: sandkeep image --help shows the options`);
}
