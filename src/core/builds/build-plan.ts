/**
 * What a build does, decided before anything runs: stages, each with a base and steps, and the settings of each stage's
 * image. A Dockerfile is one way to write a plan; a plain list of steps becomes a plan with one stage.
 */

import type { StartCommand } from "../model/image.ts";

/** What a stage begins with: an image by name, the result of an earlier stage by its index, or nothing. */
export type StageBase = { image: string } | { stage: number } | "scratch";

export interface BuildPlan {
  stages: BuildStage[];
  /** index of the stage whose result is the image */
  target: number;
  /** sentences for the person who builds, such as a warning about unused arguments */
  notes: string[];
}

export interface BuildStage {
  /** the name that progress shows */
  name: string;
  base: StageBase;
  steps: BuildStep[];
  settings: ImageSettings;
}

/** The image's configuration after the last step of its stage. */
export interface ImageSettings {
  env: Record<string, string>;
  user: string;
  cwd: string;
  entrypoint: string[];
  command: string[];
  ports: string[];
  volumes: string[];
  labels: Record<string, string>;
  stopSignal?: string | undefined;
  shell?: string[] | undefined;
  /** instructions of the image for stages that begin with it; no built image has them */
  onBuild?: string[] | undefined;
  start?: StartCommand | undefined;
}

/** why a build cannot begin from an image with these: its ONBUILD steps would be left out; undefined if it has none */
export function unfitBase({ onBuild: [first] = [] }: Pick<ImageSettings, "onBuild">): string | undefined {
  return first === undefined ? undefined : `the image has ONBUILD ${first.slice(0, 100)}, which is not supported`;
}

/** the settings of an image that begins with nothing */
export function emptySettings(): ImageSettings {
  return { env: {}, user: "", cwd: "/", entrypoint: [], command: [], ports: [], volumes: [], labels: {} };
}

export interface BuildStep {
  /** the step as it was written, for people */
  text: string;
  /** its line, if it comes from a file */
  line?: number;
  /** whether this step and those after it run even if their results are cached */
  force?: boolean;
  action: BuildAction;
}

export type BuildAction = RunAction | CopyAction | DirectoryAction | SettingAction;

/** Runs a program to its end; processes that it leaves behind are ended. */
export interface RunAction {
  kind: "run";
  argv: string[];
  /** the environment, in addition to the default one */
  env: Record<string, string>;
  user: string;
  cwd: string;
}

/** Where files are copied from: the build's context, files that the team sent before, an earlier stage, or an image. */
export type CopySource = "context" | { upload: string } | StageBase;

export interface CopyAction {
  kind: "copy";
  from: CopySource;
  /** paths with wildcards; of a directory, its contents are copied */
  sources: string[];
  /** files whose contents are in the plan itself */
  inline: InlineFile[];
  /** absolute; a trailing slash means a directory */
  target: string;
  /** user[:group], by name or number, in the new image; default root, or for files of a stage or image their own */
  owner?: string | undefined;
  /** permission bits of everything that is copied; default those of the source */
  mode?: number | undefined;
  /** whether archives are unpacked */
  unpacks?: boolean;
}

export interface InlineFile {
  name: string;
  content: string;
}

/** Makes a directory unless it exists. */
export interface DirectoryAction {
  kind: "directory";
  path: string;
  user: string;
  /** whether programs show this user's name from now on, if its number has several */
  shows?: boolean;
}

/** Changes no file. */
export interface SettingAction {
  kind: "setting";
}

/** whether a client sent the files */
export function isSent(from: CopySource): from is "context" | { upload: string } {
  return from === "context" || (typeof from === "object" && "upload" in from);
}

/** indexes of the stages that the target needs, in build order */
export function neededStages({ stages, target }: Pick<BuildPlan, "stages" | "target">): number[] {
  const needed = new Set([target]);
  for (let index = target; index >= 0; index--) {
    const stage = stages[index];
    if (!stage || !needed.has(index)) continue;
    for (const base of basesOf(stage)) if (typeof base === "object" && "stage" in base) needed.add(base.stage);
  }
  return [...needed].sort((a, b) => a - b);
}

/** the target and the stages that it begins with, directly or through others, in build order; not those it copies from */
export function stagesBelow({ stages, target }: Pick<BuildPlan, "stages" | "target">): BuildStage[] {
  const stage = stages[target];
  if (!stage) return [];
  const { base } = stage;
  const isOnStage = typeof base === "object" && "stage" in base;
  return [...(isOnStage ? stagesBelow({ stages, target: base.stage }) : []), stage];
}

/** the bases that a stage begins with or copies from */
export function basesOf(stage: BuildStage): StageBase[] {
  const copied = stage.steps.flatMap(({ action }) =>
    action.kind === "copy" && !isSent(action.from) ? [action.from] : [],
  );
  return [stage.base, ...copied];
}
