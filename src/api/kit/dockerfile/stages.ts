/** Finds the stages of a Dockerfile, which of them the target needs, and the images that those need. */

import type { StageBase } from "../../../core/builds/build-plan.ts";
import { type Instruction, readInstructions, wrong, wrongAt } from "./instructions.ts";
import { expanded, splitWords } from "./words.ts";

export interface DockerfileOptions {
  /** values for ARG, by name */
  buildArgs: Record<string, string>;
  /** name or number of the stage to build; default the last */
  target?: string | undefined;
  /** this host's platform, such as "linux/amd64" */
  platform: string;
}

export interface Outline {
  escapeMark: string;
  stages: StageOutline[];
  /** index of the stage to build */
  target: number;
  /** indexes of the stages that the target needs, itself included */
  needed: Set<number>;
  /** images that the needed stages begin with or copy from */
  images: string[];
  /** values of the ARGs before the first stage, and of the predefined platform arguments */
  args: ReadonlyMap<string, string>;
  options: DockerfileOptions;
  /** build arguments that an ARG before the first stage uses */
  used: Set<string>;
}

export interface StageOutline {
  name: string | undefined;
  line: number;
  base: StageBase;
  instructions: Instruction[];
}

export function outlineOf(text: string, options: DockerfileOptions): Outline {
  const { escapeMark, instructions } = readInstructions(text);
  const used = new Set<string>();
  const args = platformArgs(options.platform);
  const stages: StageOutline[] = [];
  const expand = (instruction: Instruction, word: string) => {
    return located(instruction, () => expanded(word, { escapeMark, variables: (name) => args.get(name) }));
  };
  for (const instruction of instructions) {
    const stage = stages.at(-1);
    if (instruction.keyword === "FROM") stages.push(stageOf(instruction, stages, options.platform, expand));
    else if (stage) stage.instructions.push(instruction);
    else if (instruction.keyword === "ARG") {
      for (const { name, value } of argsOf(instruction, escapeMark)) {
        const given = options.buildArgs[name];
        if (given !== undefined) used.add(name);
        const text = given ?? (value === undefined ? undefined : expand(instruction, value));
        if (text !== undefined) args.set(name, text);
      }
    } else throw wrongAt(instruction.line, `${instruction.keyword} stands before the first FROM`);
  }
  if (stages.length === 0) throw wrong("it has no FROM");
  const target = targetOf(stages, options.target);
  const { needed, images } = needs(stages, target);
  return { escapeMark, stages, target, needed, images, args, options, used };
}

/** names and defaults of an ARG */
export function argsOf(instruction: Instruction, escapeMark: string): { name: string; value: string | undefined }[] {
  const words = splitWords(instruction.content, escapeMark);
  if (words.length === 0) throw wrongAt(instruction.line, "ARG needs a name");
  return words.map((word) => {
    const at = word.indexOf("=");
    const name = at < 0 ? word : word.slice(0, at);
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw wrongAt(instruction.line, `"${name.slice(0, 100)}" is no name for an argument`);
    }
    return { name, value: at < 0 ? undefined : word.slice(at + 1) };
  });
}

/** does the work of an instruction; adds the instruction's line to errors */
export function located<T>({ line }: Instruction, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw message.startsWith("Cannot build from") ? error : wrongAt(line, message.replace(/^Cannot/, "cannot"), error);
  }
}

/** what --from names: an earlier stage by name or number, or an image */
export function sourceOf(stages: readonly StageOutline[], at: number, instruction: Instruction): StageBase {
  const name = instruction.flags.from ?? "";
  if (name === "" || name.includes("$"))
    throw wrongAt(instruction.line, "--from needs a stage or an image, without variables");
  const byName = stages.findIndex((stage) => stage.name !== undefined && stage.name === name.toLowerCase());
  const index = byName < 0 && /^\d{1,4}$/.test(name) ? Number(name) : byName;
  if (index >= at) throw wrongAt(instruction.line, `--from=${name} is not a stage above this one`);
  return index < 0 ? { image: name } : { stage: index };
}

/** predefined arguments that describe the platform */
function platformArgs(platform: string): Map<string, string> {
  const [os = "", arch = ""] = platform.split("/");
  const entries = ["TARGET", "BUILD"].flatMap((side): [string, string][] => [
    [`${side}PLATFORM`, platform],
    [`${side}OS`, os],
    [`${side}ARCH`, arch],
    [`${side}VARIANT`, ""],
  ]);
  return new Map(entries);
}

function stageOf(
  instruction: Instruction,
  stages: readonly StageOutline[],
  platform: string,
  expand: (instruction: Instruction, word: string) => string,
): StageOutline {
  const { line, flags } = instruction;
  const [from = "", as, given, ...more] = instruction.content.split(/\s+/);
  const isWhole = as === undefined || (as.toLowerCase() === "as" && given !== undefined && more.length === 0);
  if (from === "" || !isWhole) throw wrongAt(line, "FROM needs an image, and may have AS and a name");
  const name = given?.toLowerCase();
  if (name !== undefined && !/^[a-z][a-z0-9._-]*$/.test(name)) throw wrongAt(line, `"${given}" is no name for a stage`);
  if (name !== undefined && stages.some((stage) => stage.name === name)) {
    throw wrongAt(line, `there is a stage named "${given}" already`);
  }
  const wanted = flags.platform === undefined ? platform : expand(instruction, flags.platform);
  if (wanted !== "" && !isSamePlatform(wanted, platform)) {
    throw wrongAt(line, `the platform "${wanted}" is not supported: this host is ${platform}`);
  }
  const image = expand(instruction, from);
  if (image === "") throw wrongAt(line, `"${from}" is empty: an ARG before the first FROM has no value`);
  const earlier = stages.findIndex((stage) => stage.name === image.toLowerCase());
  const base = earlier >= 0 ? { stage: earlier } : image === "scratch" ? ("scratch" as const) : { image };
  return { name, line, base, instructions: [] };
}

function isSamePlatform(wanted: string, here: string): boolean {
  const plain = (platform: string) => platform.toLowerCase().replace("x86_64", "amd64").replace("aarch64", "arm64");
  return plain(wanted).replace(/^(linux\/arm64)\/v8$/, "$1") === plain(here);
}

function targetOf(stages: readonly StageOutline[], target: string | undefined): number {
  if (target === undefined) return stages.length - 1;
  const byName = stages.findIndex(({ name }) => name === target.toLowerCase());
  const index = byName < 0 && /^\d{1,4}$/.test(target) ? Number(target) : byName;
  if (!stages[index]) throw wrong(`there is no stage named "${target.slice(0, 100)}"`);
  return index;
}

function needs(stages: readonly StageOutline[], target: number): { needed: Set<number>; images: string[] } {
  const needed = new Set([target]);
  const images = new Set<string>();
  for (let at = target; at >= 0; at--) {
    const stage = stages[at];
    if (!stage || !needed.has(at)) continue;
    const copies = stage.instructions.filter(({ flags }) => flags.from !== undefined);
    for (const base of [stage.base, ...copies.map((copy) => sourceOf(stages, at, copy))]) {
      if (base === "scratch") continue;
      if ("stage" in base) needed.add(base.stage);
      else images.add(base.image);
    }
  }
  return { needed, images: [...images] };
}
