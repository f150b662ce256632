/** `sandkeep image …`: brings images into this host's data directory, lists, names and deletes them. */

import { parseArgs } from "node:util";
import { SandkeepError } from "../../core/model/errors.ts";
import { stepsOwner } from "../../runtime/linux/builds/image-builds.ts";
import { buildDebian } from "../../runtime/linux/images/debian.ts";
import { hostImage } from "../../runtime/linux/images/host.ts";
import type { ImageRecord } from "../../runtime/linux/images/images.ts";
import { importImage } from "../../runtime/linux/oci/import.ts";
import type { OfflineStore } from "./offline-store.ts";

export const imageUsage = `Usage:
  sandkeep image import <path> [--name <name>] [--no-node]
      <path>: an OCI layout (directory or tar) or a docker save tar; - reads a tar from standard input
  sandkeep image build debian [--name <name>] [--suite <suite>] [--include <package,…>] [--no-node]
  sandkeep image build [-t <name>] <directory>
      builds from a Dockerfile, in sandboxes of the running daemon; sandkeep image build --help says more
  sandkeep image from-snapshot <snapshot> <name>
  sandkeep image export <name> [-o <file>]
      both ask the running daemon
  sandkeep image list
  sandkeep image delete <name>
  sandkeep image alias <pattern> <name>
      lets callers find an image under another name too; a * in the pattern stands for any text
  sandkeep image aliases
  sandkeep image unalias <pattern>

Options:
  --data-dir <directory>   where Sandkeep keeps everything (SANDKEEP_DATA_DIR, /var/lib/sandkeep)
  --run-dir <directory>    where its sockets are (SANDKEEP_RUN_DIR, /run/sandkeep)
`;

/** What a command reads and writes besides the store. */
export interface ImageContext {
  /** `create`: makes the data directory where there is none */
  open(places: { dataDir: string | undefined; runDir: string | undefined; create: boolean }): Promise<OfflineStore>;
  input: AsyncIterable<Uint8Array>;
  print(line: string): void;
  /** what is being done right now */
  progress(line: string): void;
}

export async function imageCommand(args: string[], context: ImageContext): Promise<void> {
  const { values, positionals } = parse(args);
  const [verb = "", ...rest] = positionals;
  const command = commands[verb];
  if (values.help || args.length === 0) return context.print(imageUsage.trimEnd());
  if (!command) throw usageError(`Cannot do "image ${verb}": there is no such command`);
  if (rest.length !== command.operands)
    throw usageError(`Cannot do "image ${verb}": it takes ${command.operands} names`);
  const create = command.makesStore ?? false;
  const store = await context.open({ dataDir: values["data-dir"], runDir: values["run-dir"], create });
  try {
    await command.run({ store, context, values, operand: rest[0] ?? "", second: rest[1] ?? "" });
  } finally {
    await store.close();
  }
}

const options = {
  help: { type: "boolean", short: "h" },
  "data-dir": { type: "string" },
  "run-dir": { type: "string" },
  name: { type: "string" },
  suite: { type: "string" },
  include: { type: "string" },
  "no-node": { type: "boolean" },
} as const;

interface Job {
  store: OfflineStore;
  context: ImageContext;
  values: ReturnType<typeof parse>["values"];
  operand: string;
  second: string;
}

interface ImageCommand {
  operands: number;
  /** whether it makes a data directory where there is none */
  makesStore?: boolean;
  run(job: Job): Promise<void>;
}

const commands: Record<string, ImageCommand> = {
  import: {
    operands: 1,
    makesStore: true,
    async run({ store, context, values, operand }) {
      const source = operand === "-" ? context.input : operand;
      const options = { name: values.name, ...shared(values, context) };
      const image = await importImage(store, source, options);
      context.print(await described(store, image));
    },
  },
  build: {
    operands: 1,
    makesStore: true,
    async run({ store, context, values, operand }) {
      if (operand !== "debian") throw usageError(`Cannot build "${operand}": only "debian" can be built`);
      const packages = values.include?.split(",").filter((name) => name !== "") ?? [];
      const { name, suite } = values;
      const image = await buildDebian(store, { name, suite, packages, ...shared(values, context) });
      context.print(await described(store, image));
    },
  },
  list: {
    operands: 0,
    async run({ store, context }) {
      const images = (await store.images.list()).filter(({ owner }) => owner !== stepsOwner);
      for (const image of images) context.print(await described(store, image));
    },
  },
  delete: {
    operands: 1,
    async run({ store, context, operand }) {
      if (operand === hostImage) {
        throw new SandkeepError(
          "invalid",
          `Cannot delete image "${hostImage}": it is this host's own /usr, and made at every start`,
        );
      }
      await store.images.delete(operand);
      context.print(`deleted ${operand}; its layers go when no snapshot needs them`);
    },
  },
  alias: {
    operands: 2,
    async run({ store, context, operand, second }) {
      await store.images.setAlias(operand, second);
      context.print(`${operand} is ${second}`);
    },
  },
  aliases: {
    operands: 0,
    async run({ store, context }) {
      const all = Object.entries(await store.images.aliases());
      for (const [pattern, image] of all) context.print(`${pattern} is ${image}`);
    },
  },
  unalias: {
    operands: 1,
    async run({ store, context, operand }) {
      await store.images.deleteAlias(operand);
      context.print(`${operand} is no alias any more`);
    },
  },
};

function shared(values: Job["values"], context: ImageContext) {
  return { progress: (line: string) => context.progress(line), ...(values["no-node"] && { node: false as const }) };
}

async function described({ layers }: OfflineStore, image: ImageRecord): Promise<string> {
  const size = Math.ceil((await layers.size(image.layers)) / 1e6);
  return `${image.name}  ${image.layers.length} layers  ${size} MB  ${new Date(image.createdAt).toISOString()}`;
}

function parse(args: string[]) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (cause) {
    throw usageError((cause instanceof Error ? cause.message : String(cause)).split(". ")[0] ?? "");
  }
}

function usageError(message: string): SandkeepError {
  return new SandkeepError("invalid", `${message}\n\n${imageUsage}`);
}
