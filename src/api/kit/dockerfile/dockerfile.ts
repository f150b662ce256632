/**
 * Makes a build plan from a Dockerfile: expands variables, makes relative paths absolute, and turns each instruction
 * into a step. All of this happens before anything runs.
 */

import {
  type BuildAction,
  type BuildPlan,
  type BuildStage,
  type BuildStep,
  type CopyAction,
  emptySettings,
  type ImageSettings,
  unfitBase,
} from "../../../core/builds/build-plan.ts";
import { absolutePath } from "../../../core/builds/paths.ts";
import { type Instruction, type Keyword, wrongAt } from "./instructions.ts";
import {
  argsOf,
  type DockerfileOptions,
  located,
  type Outline,
  outlineOf,
  type StageOutline,
  sourceOf,
} from "./stages.ts";
import { expanded, jsonList, splitWords } from "./words.ts";

export type { DockerfileOptions };

export interface Dockerfile {
  /** names of the images that the build needs */
  images: string[];
  plan(images: ReadonlyMap<string, ImageSettings>): BuildPlan;
}

export function readDockerfile(text: string, options: DockerfileOptions): Dockerfile {
  const outline = outlineOf(text, options);
  return { images: outline.images, plan: (images) => planOf(outline, images) };
}

/** of a stage: those of its image, of ENV and of ARG */
const mostVariables = 1000;
const defaultShell = ["/bin/sh", "-c"];
/** build arguments that commands get without an ARG */
const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

function planOf(outline: Outline, images: ReadonlyMap<string, ImageSettings>): BuildPlan {
  const results = new Map<number, ImageSettings>();
  const used = new Set([...outline.used, ...proxies]);
  const stages = outline.stages.map((stage, index): BuildStage => {
    const name = stage.name ?? String(index);
    if (!outline.needed.has(index)) return { name, base: stage.base, steps: [], settings: emptySettings() };
    const planner = new StagePlanner(outline, index, baseSettings(stage, images, results), used);
    const steps = stage.instructions.map((instruction) => located(instruction, () => planner.step(instruction)));
    results.set(index, planner.settings);
    return { name, base: stage.base, steps, settings: planner.settings };
  });
  const unused = Object.keys(outline.options.buildArgs).filter((name) => !used.has(name));
  const notes = unused.map((name) => `The build argument "${name}" was given, and no ARG has that name`);
  const hasVolumes = stages.some((_, index) => {
    return outline.needed.has(index) && outline.stages[index]?.instructions.some(({ keyword }) => keyword === "VOLUME");
  });
  if (hasVolumes) notes.push("VOLUME is on record only: a sandbox keeps these directories with its other files");
  return { stages, target: outline.target, notes };
}

function baseSettings(
  { base, line }: StageOutline,
  images: ReadonlyMap<string, ImageSettings>,
  stages: ReadonlyMap<number, ImageSettings>,
): ImageSettings {
  const found = base === "scratch" ? undefined : "stage" in base ? stages.get(base.stage) : images.get(base.image);
  const { onBuild, ...settings } = found ?? emptySettings();
  const unfit = unfitBase({ onBuild });
  if (unfit !== undefined) throw wrongAt(line, unfit);
  const { env, labels, ports, volumes } = settings;
  return { ...settings, env: { ...env }, labels: { ...labels }, ports: [...ports], volumes: [...volumes] };
}

/** Reads the instructions of one stage in their order. */
class StagePlanner {
  readonly settings: ImageSettings;
  readonly #outline: Outline;
  readonly #index: number;
  readonly #stages: readonly StageOutline[];
  readonly #used: Set<string>;
  readonly #args = new Map<string, string>();
  /** of ENV and ARG */
  readonly #names: Set<string>;
  /** what commands get, until ENV or ARG changes it: many of them share it */
  #env: Readonly<Record<string, string>> | undefined;
  /** whether a CMD stands in this stage */
  #hasCommand = false;

  constructor(outline: Outline, index: number, base: ImageSettings, used: Set<string>) {
    this.#outline = outline;
    this.#stages = outline.stages;
    this.#index = index;
    this.settings = base;
    this.#used = used;
    this.#names = new Set(Object.keys(base.env));
    for (const name of proxies) {
      const given = outline.options.buildArgs[name];
      if (given !== undefined) this.#args.set(name, given);
    }
  }

  step(instruction: Instruction): BuildStep {
    const { keyword, line, content, raw } = instruction;
    if (content === "" && instruction.heredocs.length === 0) throw wrongAt(line, `${keyword} needs an argument`);
    const flags = Object.entries(instruction.flags).map(
      ([name, value]) => `--${name}${value === "" ? "" : `=${value}`} `,
    );
    const action = this.#actions[keyword](instruction);
    return { text: `${keyword} ${flags.join("")}${content || raw}`, line, action };
  }

  readonly #actions: Record<Keyword, (instruction: Instruction) => BuildAction> = {
    FROM: ({ line }) => {
      throw wrongAt(line, "FROM begins a stage");
    },
    ARG: (instruction) => {
      for (const { name, value } of argsOf(instruction, this.#outline.escapeMark)) {
        this.#changes(instruction, [name]);
        this.#declare(name, value);
      }
      return setting;
    },
    ENV: (instruction) => {
      const pairs = this.#pairs(instruction);
      this.#changes(instruction, Object.keys(pairs));
      Object.assign(this.settings.env, pairs);
      return setting;
    },
    LABEL: (instruction) => {
      Object.assign(this.settings.labels, this.#pairs(instruction));
      return setting;
    },
    MAINTAINER: ({ content }) => {
      this.settings.labels.maintainer = content;
      return setting;
    },
    RUN: (instruction) => {
      const { user, cwd } = this.settings;
      const argv = this.#program(instruction);
      if (argv.length === 0 || argv[0] === "") throw wrongAt(instruction.line, "RUN names no program");
      this.#env ??= Object.freeze({ ...Object.fromEntries(this.#args), ...this.settings.env });
      return { kind: "run", argv, env: this.#env, user: user || "root", cwd };
    },
    COPY: (instruction) => this.#copy(instruction),
    ADD: (instruction) => this.#copy(instruction),
    WORKDIR: ({ content }) => {
      this.settings.cwd = absolutePath(this.settings.cwd || "/", this.#word(content));
      return { kind: "directory", path: this.settings.cwd, user: this.settings.user || "root" };
    },
    USER: ({ content, line }) => {
      const user = this.#word(content);
      if (!/^[^\s:]+(:[^\s:]+)?$/.test(user)) throw wrongAt(line, `"${user.slice(0, 100)}" is no user`);
      this.settings.user = user;
      return setting;
    },
    ENTRYPOINT: (instruction) => {
      this.settings.entrypoint = this.#program(instruction);
      // The arguments of another entrypoint make no sense for this one.
      if (!this.#hasCommand) this.settings.command = [];
      return setting;
    },
    CMD: (instruction) => {
      this.#hasCommand = true;
      this.settings.command = this.#program(instruction);
      return setting;
    },
    EXPOSE: ({ content, line }) => {
      const ports = splitWords(content, this.#outline.escapeMark).flatMap((word) => this.#word(word).split(/\s+/));
      for (const port of ports) {
        if (!isPort(port)) throw wrongAt(line, `"${port.slice(0, 100)}" is no port`);
        const full = port.includes("/") ? port.toLowerCase() : `${port}/tcp`;
        if (!this.settings.ports.includes(full)) this.settings.ports.push(full);
      }
      return setting;
    },
    VOLUME: ({ content, line }) => {
      const words = jsonList(content) ?? splitWords(content, this.#outline.escapeMark);
      const paths = words.map((word) => absolutePath("/", this.#word(word)));
      if (paths.length === 0 || paths.includes("/")) throw wrongAt(line, "VOLUME needs directories");
      this.settings.volumes = [...new Set([...this.settings.volumes, ...paths])];
      return setting;
    },
    SHELL: ({ content, line }) => {
      const shell = jsonList(content);
      if (!shell || shell.length === 0) throw wrongAt(line, "SHELL needs a JSON list of strings");
      this.settings.shell = shell;
      return setting;
    },
    STOPSIGNAL: ({ content, line }) => {
      const signal = this.#word(content);
      if (!/^(SIG)?[A-Z0-9+-]{1,20}$/.test(signal)) throw wrongAt(line, `"${signal.slice(0, 100)}" is no signal`);
      this.settings.stopSignal = signal;
      return setting;
    },
  };

  #changes({ line }: Instruction, names: string[]): void {
    this.#env = undefined;
    for (const name of names) this.#names.add(name);
    if (this.#names.size > mostVariables) throw wrongAt(line, `there are more than ${mostVariables} variables`);
  }

  #declare(name: string, value: string | undefined): void {
    const { args, options } = this.#outline;
    this.#used.add(name);
    const fallback = value === undefined ? args.get(name) : this.#word(value);
    const text = options.buildArgs[name] ?? fallback;
    if (text !== undefined) this.#args.set(name, text);
  }

  #word(word: string): string {
    const variables = (name: string) =>
      Object.hasOwn(this.settings.env, name) ? this.settings.env[name] : this.#args.get(name);
    return expanded(word, { escapeMark: this.#outline.escapeMark, variables });
  }

  /** name=value …, or one name and its value; each value is expanded with the variables from before the instruction */
  #pairs({ keyword, content, line }: Instruction): Record<string, string> {
    const words = splitWords(content, this.#outline.escapeMark);
    const [first = ""] = words;
    const pairs: [string, string][] = [];
    if (!first.includes("=")) {
      const value = content.slice(content.indexOf(first) + first.length).trim();
      if (value === "") throw wrongAt(line, `${keyword} ${first.slice(0, 100)} needs a value`);
      pairs.push([this.#word(first), this.#word(value)]);
    } else {
      for (const word of words) {
        const at = word.indexOf("=");
        if (at < 1) throw wrongAt(line, `"${word.slice(0, 100)}" is not name=value`);
        pairs.push([this.#word(word.slice(0, at)), this.#word(word.slice(at + 1))]);
      }
    }
    for (const [name] of pairs) if (name === "" || name.includes("=")) throw wrongAt(line, `"${name}" is no name`);
    return Object.fromEntries(pairs);
  }

  /** a program and its arguments: a JSON list, or a line for the shell */
  #program({ keyword, content, raw, heredocs, line }: Instruction): string[] {
    const list = heredocs.length === 0 ? jsonList(content) : undefined;
    if (list) return list;
    const shell = this.settings.shell ?? defaultShell;
    if (heredocs.length === 0) return [...shell, content];
    if (keyword !== "RUN") throw wrongAt(line, `a heredoc in ${keyword} is not supported`);
    const [script, ...more] = heredocs;
    if (!script || more.length > 0 || !/^<<-?["']?\w[\w.-]*["']?$/.test(content))
      return [...shell, raw.replaceAll("\r\n", "\n")];
    if (script.content.startsWith("#!"))
      throw wrongAt(line, "a heredoc that names its program with #! is not supported");
    return [...shell, script.content];
  }

  #copy(instruction: Instruction): CopyAction {
    const { keyword, line, flags, content, heredocs } = instruction;
    const words = (heredocs.length === 0 && jsonList(content)) || content.split(/\s+/);
    const target = this.#word(words.pop() ?? "");
    const inline = heredocs.map(({ name, content, expands }) => {
      return { name, content: expands ? this.#document(content) : content };
    });
    const sources = words
      .filter((word) => heredocs.length === 0 || !word.startsWith("<<"))
      .map((word) => this.#word(word));
    if (target === "" || sources.length + inline.length === 0)
      throw wrongAt(line, `${keyword} needs a source and a target`);
    for (const source of sources) refuseSource(keyword, line, source);
    const isDirectory = /(^|\/)\.{0,2}$/.test(target);
    if (sources.length + inline.length > 1 && !isDirectory) {
      throw wrongAt(line, `${keyword} of several sources needs a directory: "${target}" must end in a slash`);
    }
    const path = absolutePath(this.settings.cwd || "/", target);
    return {
      kind: "copy",
      from: flags.from === undefined ? "context" : sourceOf(this.#stages, this.#index, instruction),
      sources,
      inline,
      target: isDirectory && path !== "/" ? `${path}/` : path,
      owner: flags.chown === undefined ? undefined : ownerOf(this.#word(flags.chown), line),
      mode: flags.chmod === undefined ? undefined : modeOf(this.#word(flags.chmod), line),
      ...(keyword === "ADD" && { unpacks: true }),
    };
  }

  /** expands variables in a text in which quotes have no special meaning */
  #document(text: string): string {
    const { escapeMark } = this.#outline;
    const kept = text.replace(/["']/g, (quote) => escapeMark + quote);
    return this.#word(kept);
  }
}

const setting: BuildAction = { kind: "setting" };

function refuseSource(keyword: Keyword, line: number, source: string): void {
  if (/^(https?|ftp|git|ssh):\/\/|^git@|\.git(#.*)?$/i.test(source) && keyword === "ADD") {
    throw wrongAt(line, "ADD of URLs and repositories is not supported");
  }
  if (source.split("/").includes("..")) throw wrongAt(line, `"${source}" is outside of what can be copied`);
}

function ownerOf(owner: string, line: number): string {
  if (!/^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$/.test(owner))
    throw wrongAt(line, `--chown=${owner.slice(0, 100)} is no owner`);
  return owner;
}

function modeOf(mode: string, line: number): number {
  if (!/^[0-7]{1,4}$/.test(mode))
    throw wrongAt(line, `--chmod=${mode.slice(0, 100)} is not supported: say it in octal`);
  return Number.parseInt(mode, 8);
}

function isPort(text: string): boolean {
  const [, first, last] = /^(\d{1,5})(?:-(\d{1,5}))?(?:\/(?:tcp|udp|sctp))?$/i.exec(text) ?? [];
  const numbers = [first, last ?? first].map(Number);
  return numbers.every((port) => port > 0 && port < 65_536) && (numbers[0] ?? 0) <= (numbers[1] ?? 0);
}
