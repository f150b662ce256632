/** Makes a build plan from the steps of a template: variables are expanded and paths made absolute before any step runs. */

import {
  type BuildAction,
  type BuildPlan,
  type BuildStep,
  emptySettings,
  type ImageSettings,
  unfitBase,
} from "../../../core/builds/build-plan.ts";
import { absolutePath } from "../../../core/builds/paths.ts";
import { shellLine } from "../../../core/commands/login-shell.ts";
import type { WantedImage } from "../../../core/images/images.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Recipe } from "../../../core/templates/template-runs.ts";
import { Refusal } from "../../kit/refusal.ts";
import type { StartBody, Step } from "./schemas.ts";

/** user and directory of a template that begins with an image */
const plain = { user: "user", cwd: "/home/user" };

/** most characters of a text whose variables are expanded, of all variables together, and most variables */
const longestText = 64 << 10;
const longestEnvironment = 1 << 20;
const mostVariables = 1000;

/** what clients send as the ready command of a Dockerfile's CMD: a wait, which their users did not ask for */
const clientsGuess = "sleep 20";

export interface RecipeBase {
  image: WantedImage;
  /** whether user, directory and start command are those of the image */
  inherits: boolean;
}

export function recipeOf(base: RecipeBase, body: StartBody): Recipe {
  const { steps, force, startCmd, readyCmd } = body;
  const given = steps ?? [];
  // Faults are found now, while the client can be answered; the image's own settings change none of them.
  planOf(base, given, emptySettings());
  const ready = startCmd && readyCmd === clientsGuess ? undefined : readyCmd;
  const start = { ...(startCmd && { command: startCmd }), ...(ready && { ready }) };
  return {
    images: [base.image],
    prelude: preludeOf(base).length,
    useCache: force !== true,
    plan(images) {
      const plan = planOf(base, given, images.get(base.image.name) ?? emptySettings());
      const [stage] = plan.stages;
      if (stage && (startCmd || readyCmd)) stage.settings.start = start;
      return plan;
    },
  };
}

function planOf(base: RecipeBase, steps: readonly Step[], found: ImageSettings): BuildPlan {
  const unfit = unfitBase(found);
  if (unfit !== undefined) throw new SandkeepError("invalid", `Cannot build the template: ${unfit}`);
  const { onBuild: _, ...image } = found;
  const settings: ImageSettings = {
    ...image,
    env: { ...image.env },
    labels: { ...image.labels },
    ports: [...image.ports],
    volumes: [...image.volumes],
    ...(!base.inherits && { ...plain, entrypoint: [], command: [], start: undefined }),
  };
  const planner = new StepPlanner(settings);
  const planned = steps.map((step, index) => planner.step(step, index + 1));
  const stage = {
    name: "template",
    base: { image: base.image.name },
    steps: [...preludeOf(base), ...planned],
    settings,
  };
  return { stages: [stage], target: 0, notes: [] };
}

/** the user's home must exist before the first step */
function preludeOf({ inherits }: RecipeBase): BuildStep[] {
  if (inherits) return [];
  const { user, cwd: path } = plain;
  return [{ text: `WORKDIR ${path}`, action: { kind: "directory", path, user, shows: true } }];
}

type Word = "RUN" | "COPY" | "WORKDIR" | "USER" | "ENV";

/** Reads the steps in their order, and keeps the settings that they change. */
class StepPlanner {
  readonly #settings: ImageSettings;

  constructor(settings: ImageSettings) {
    this.#settings = settings;
  }

  step({ type, args, force, filesHash }: Step, number: number): BuildStep {
    const word = type.toUpperCase();
    if (!Object.hasOwn(this.#actions, word)) throw wrong(number, `there is no step "${type}"`);
    // An own key of the table, which was just checked.
    const action = this.#actions[word as Word]({ args: args ?? [], number, filesHash: filesHash ?? undefined });
    // The second word of RUN is its user, which is no part of the command.
    const words = word === "RUN" ? (args ?? []).slice(0, 1) : (args ?? []);
    return { text: `${word} ${words.join(" ")}`.trim(), action, ...(force && { force }) };
  }

  readonly #actions: Record<Word, (step: Given) => BuildAction> = {
    RUN: ({ args: [command = "", user = ""], number }) => {
      if (command.trim() === "") throw wrong(number, "RUN names no command");
      const { env, cwd } = this.#settings;
      return { kind: "run", argv: shellLine(command), env: { ...env }, user: userOf(user || this.#user, number), cwd };
    },
    COPY: ({ args: [source = "", target = "", owner = "", mode = ""], number, filesHash }) => {
      if (source === "" || target === "") throw wrong(number, "COPY needs a source and a target");
      if (filesHash === undefined) throw wrong(number, "COPY needs `filesHash`");
      if (mode !== "" && !/^0?[0-7]{3,4}$/.test(mode)) throw wrong(number, `"${mode.slice(0, 20)}" is no mode`);
      const path = absolutePath(this.#settings.cwd || "/", this.#expanded(target, number));
      return {
        kind: "copy",
        from: { upload: filesHash },
        sources: [source],
        inline: [],
        target: target.endsWith("/") && path !== "/" ? `${path}/` : path,
        owner: userOf(owner || this.#user, number),
        ...(mode !== "" && { mode: Number.parseInt(mode, 8) }),
      };
    },
    WORKDIR: ({ args: [path = ""], number }) => {
      if (path === "") throw wrong(number, "WORKDIR needs a path");
      this.#settings.cwd = absolutePath(this.#settings.cwd || "/", this.#expanded(path, number));
      return { kind: "directory", path: this.#settings.cwd, user: this.#user };
    },
    USER: ({ args: [name = "", sudo = "false"], number }) => {
      this.#settings.user = userOf(name, number);
      const isAdmin = sudo === "true";
      if ((name === "root" || name === plain.user) && !isAdmin) return { kind: "setting" };
      return {
        kind: "run",
        argv: ["/bin/sh", "-c", addUser, "sh", name.replace(/:.*/, ""), sudo],
        env: {},
        user: "root",
        cwd: "/",
      };
    },
    ENV: ({ args, number }) => {
      if (args.length === 0 || args.length % 2 !== 0) throw wrong(number, "ENV needs pairs of a name and a value");
      const before = { ...this.#settings.env };
      for (let at = 0; at < args.length; at += 2) {
        const [name = "", value = ""] = args.slice(at, at + 2);
        if (!/^[^=\0]{1,256}$/.test(name)) throw wrong(number, `"${name.slice(0, 100)}" is no name of a variable`);
        this.#settings.env[name] = this.#expanded(value, number, before);
      }
      const pairs = Object.entries(this.#settings.env);
      const length = pairs.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
      if (pairs.length > mostVariables) throw wrong(number, `there are more than ${mostVariables} variables`);
      if (length > longestEnvironment) throw wrong(number, "the variables are too long together");
      return { kind: "setting" };
    },
  };

  get #user(): string {
    return this.#settings.user || "root";
  }

  /** counts while it expands: a variable that repeats another one many times would fill the memory in a few steps */
  #expanded(text: string, number: number, env: Record<string, string> = this.#settings.env): string {
    let length = text.length;
    return text.replaceAll(variable, (written: string, braced?: string, bare?: string) => {
      const name = braced ?? bare ?? "";
      const value = Object.hasOwn(env, name) ? (env[name] ?? "") : "";
      length += value.length - written.length;
      if (length > longestText) throw wrong(number, "a text becomes too long when its variables are expanded");
      return value;
    });
  }
}

const variable = /\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g;

interface Given {
  args: string[];
  number: number;
  filesHash: string | undefined;
}

/** creates the user unless it exists, with a home directory; `$2`: whether it may become root */
const addUser = `set -e
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
shell=/bin/sh; [ ! -x /bin/bash ] || shell=/bin/bash
id -u "$1" >/dev/null 2>&1 || if command -v useradd >/dev/null; then useradd -m -s "$shell" "$1"; else adduser -D -s "$shell" "$1"; fi
[ "$2" != true ] || { mkdir -p /etc/sudoers.d; echo "$1 ALL=(ALL:ALL) NOPASSWD: ALL" > "/etc/sudoers.d/$1"; chmod 440 "/etc/sudoers.d/$1"; }`;

function userOf(name: string, number: number): string {
  if (/^[A-Za-z0-9_][\w.-]{0,63}(:[A-Za-z0-9_][\w.-]{0,63})?$/.test(name)) return name;
  throw wrong(number, `"${name.slice(0, 100)}" is no user`);
}

function wrong(number: number, why: string): Refusal {
  return new Refusal(400, `Cannot build the template: step ${number}: ${why}`);
}
