/**
 * What a build does, decided before anything runs: stages, each with a base and steps, and what the image of each says of
 * itself. A Dockerfile is one way to write it; whoever has a list of steps makes a plan of one stage.
 */

/** What a stage begins with: an image by name, the result of an earlier stage by its index, or nothing. */
export type StageBase = { image: string } | { stage: number } | "scratch";

export interface BuildPlan {
  stages: BuildStage[];
  /** index of the stage whose result is the image */
  target: number;
  /** sentences for whoever builds, such as arguments that no step uses */
  notes: string[];
}

export interface BuildStage {
  /** how it is shown */
  name: string;
  base: StageBase;
  steps: BuildStep[];
  settings: ImageSettings;
}

/** What an image says of itself after the last step of its stage. */
export interface ImageSettings {
  env: Record<string, string>;
  user: string;
  cwd: string;
  entrypoint: string[];
  command: string[];
  ports: string[];
  labels: Record<string, string>;
  stopSignal?: string | undefined;
  shell?: string[] | undefined;
}

export interface BuildStep {
  /** as it was written, for people */
  text: string;
  /** where it was written, if in a file */
  line?: number;
  action: BuildAction;
}

export type BuildAction = RunAction | CopyAction | DirectoryAction | SettingAction;

/** Runs a program to its end; whatever is left of it ends then. */
export interface RunAction {
  kind: "run";
  argv: string[];
  /** the whole environment besides the default one */
  env: Record<string, string>;
  user: string;
  cwd: string;
}

/** Where files are copied from: the build's context, or the files of an earlier stage or of an image. */
export type CopySource = "context" | StageBase;

export interface CopyAction {
  kind: "copy";
  from: CopySource;
  /** paths with wildcards; directories give what is in them */
  sources: string[];
  /** files that stand in the plan itself */
  inline: InlineFile[];
  /** absolute; a slash at its end says that it is a directory */
  target: string;
  /** user[:group], by name or number, of the image that is built; default root, of a stage's or image's files their own */
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

/** Makes a directory unless it is there. */
export interface DirectoryAction {
  kind: "directory";
  path: string;
  user: string;
}

/** Changes no file. */
export interface SettingAction {
  kind: "setting";
}

/** the stages that the target needs, by index, in the order they are built in */
export function neededStages({ stages, target }: Pick<BuildPlan, "stages" | "target">): number[] {
  const needed = new Set([target]);
  for (let index = target; index >= 0; index--) {
    const stage = stages[index];
    if (!stage || !needed.has(index)) continue;
    for (const base of basesOf(stage)) if (typeof base === "object" && "stage" in base) needed.add(base.stage);
  }
  return [...needed].sort((a, b) => a - b);
}

/** what a stage begins with, and copies from */
export function basesOf(stage: BuildStage): StageBase[] {
  const copied = stage.steps.flatMap(({ action }) =>
    action.kind === "copy" && action.from !== "context" ? [action.from] : [],
  );
  return [stage.base, ...copied];
}
