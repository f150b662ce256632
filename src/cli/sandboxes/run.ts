/** `sandkeep run`: makes a sandbox, runs a program in it, and deletes it. */

import { parseArgs, readArgs } from "../args.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, showUsage } from "../command.ts";
import { CliError, misuse, Refusal } from "../errors.ts";
import type { Volume } from "../files/run-folders.ts";
import type { NetworkAccess } from "../network-access.ts";
import { shellWord } from "../print/output.ts";
import { durationInWords, durationOf, memoryOf, numberOf, portOf, variablesOf } from "../units.ts";
import {
  attend,
  encodingOf,
  exitCodes,
  type RunLine,
  requireTerminal,
  runProgram,
  startedOf,
  startOf,
} from "./program.ts";

const { basename, resolve } = process.getBuiltinModule("node:path");

export const runUsage = `Usage: sandkeep run [options] -- <program> [arguments]
       sandkeep run [options] <image> [--] <program> [arguments]
       sandkeep run -it [options] [image]
       sandkeep run [options] <image>

Makes a sandbox, runs a program in it with its output here, and deletes the sandbox. The exit code is the program's.
Ctrl-C goes to the program; the second one ends it with its sandbox. With no program, a shell runs (-it), or
the image's own program.

Options:
  -i, --interactive        pass standard input on to the program
  -t, --tty                give the program a terminal
  --keep                   do not delete the sandbox
  --name <name>            its name (one is made)
  -e, --env <name=value>   a variable; a name alone takes its value from here; may be repeated
  -w, --cwd <directory>    where the program starts
  -u, --user <name>        the user that it runs as
  --cpus <number>          processors, such as 2 or 0.5
  --memory <size>          such as 512m or 2g
  --timeout <duration>     longest that the sandbox runs, such as 90s or 12h (5m, unless the daemon is set otherwise)
  --allow <domain>         let it reach this domain or range, and nothing else but such; may be repeated
  --header <rule>          let it reach a domain, and add a header to its requests there, outside of the sandbox:
                           '<domain>: <name>: <value>'; $NAME and $(<file) stand for secrets; may be repeated
  -v, --volume <folder>    copy this folder in, where the program starts then; <folder>:<path> says where to; may be
                           repeated
  --sync                   bring changes of these folders back when the program has ended
  --drive <name>:<path>    mount this drive there; may be repeated
  -p, --port <port>        give this port an address, which is printed on stderr; may be repeated
${daemonUsage}
Example:
  sandkeep run --memory 2g --allow registry.npmjs.org -- npm view zod version
`;

const options = {
  interactive: { type: "boolean", short: "i" },
  tty: { type: "boolean", short: "t" },
  keep: { type: "boolean" },
  name: { type: "string" },
  env: { type: "string", short: "e", multiple: true },
  cwd: { type: "string", short: "w" },
  user: { type: "string", short: "u" },
  cpus: { type: "string" },
  memory: { type: "string" },
  timeout: { type: "string" },
  allow: { type: "string", multiple: true },
  header: { type: "string", multiple: true },
  volume: { type: "string", short: "v", multiple: true },
  sync: { type: "boolean" },
  drive: { type: "string", multiple: true },
  port: { type: "string", short: "p", multiple: true },
  ...daemonOptions,
} as const;

/** options of other tools */
const otherOptions = {
  "--rm": "run deletes its sandbox unless you say --keep",
  "-d": "a & after the command runs it in the background; --keep keeps the sandbox when the program has ended",
  "--detach": "a & after the command runs it in the background; --keep keeps the sandbox when the program has ended",
  "--network": "--allow lets the sandbox reach a domain or range, and nothing else",
  "--image": "the image comes before the program: sandkeep run [options] <image> -- <program>",
  "--publish": "-p or --port gives a port an address",
  "--workdir": "-w or --cwd says where the program starts",
};

const shell = ["sh", "-c", "exec $(command -v bash || echo sh)"];

export async function runCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { own, words } = splitAtProgram(args);
  const { values, positionals } = readArgs(own, runUsage, options, otherOptions);
  if (values.help) return showUsage(runUsage, context);
  const { tty = false, json = false, keep = false, sync = false } = values;
  if (words.length === 0 && !tty && positionals.length === 0)
    throw misuse("Cannot run nothing: name a program", runUsage);
  if (tty) requireTerminal(context, json);
  const volumes = (values.volume ?? []).map(volumeOf);
  if (sync && volumes.length === 0) throw new CliError("Cannot use --sync: no folder is named with -v");
  const sandbox = {
    ...settingsOf(values, context.environment, await accessOf(values, context.environment)),
    ...(positionals[0] !== undefined && { image: positionals[0] }),
    persistent: keep,
  };
  const daemon = new Daemon(values, context);
  const wanted: Wanted = {
    ...{ sandbox, keep, sync, volumes, tty, json },
    words: words.length > 0 || !tty ? words : shell,
    interactive: (values.interactive ?? false) && !tty,
    cwd: values.cwd,
    user: values.user,
  };
  // One request is enough, unless something must happen between the sandbox and the program.
  const run = volumes.length === 0 && !tty ? inOneRequest : stepByStep;
  return run(daemon, wanted, context).catch((error) => {
    throw args.includes("--") ? inOwnWords(error) : inOwnWords(error, [...positionals, ...words]);
  });
}

/** options by the members that the API calls them */
const optionsOf = new Map([
  ["name", "--name"],
  ["env", "--env"],
  ["vcpus", "--cpus"],
  ["memory", "--memory"],
  ["timeout", "--timeout"],
  ["mounts", "--drive"],
  ["ports", "--port"],
]);

/**
 * A refusal with the names and units of the options, in place of the API's. `written`: the words of a command line
 * without "--", whose first one was taken for an image.
 */
export function inOwnWords(error: unknown, written: string[] = []): unknown {
  if (!(error instanceof Refusal)) return error;
  const message = error.message
    .replace(/`(?:sandbox\.)?(\w+)[^`]*`/, (whole, field: string) => optionsOf.get(field) ?? whole)
    .replace(/(--memory should be .= \d+)/, "$1m")
    .replace(/(?<=--timeout should be .= )(\d+)(?: ms)?/, (_, length: string) => durationInWords(Number(length)));
  const [image = ""] = written;
  const isProgram = /^[\w.+-]+$/.test(image) && message.includes(`image "${image}" is not here`);
  const hint = `to run "${image}" in the default image: sandkeep run -- ${written.map(shellWord).join(" ")}`;
  return new CliError(message, isProgram ? hint : undefined);
}

interface Wanted {
  sandbox: ReturnType<typeof settingsOf> & { image?: string; persistent: boolean };
  keep: boolean;
  sync: boolean;
  volumes: Volume[];
  words: string[];
  interactive: boolean;
  tty: boolean;
  json: boolean;
  cwd: string | undefined;
  user: string | undefined;
}

/** the daemon makes the sandbox, runs the program and deletes the sandbox */
async function inOneRequest(daemon: Daemon, wanted: Wanted, context: CommandContext): Promise<number> {
  const { sandbox, keep, json } = wanted;
  const left = new AbortController();
  const body = { sandbox, program: startOf(wanted, context), keep, encoding: encodingOf(json) };
  const lines = daemon.client.lines("runProgram", { query: daemon.scope, body, signal: left.signal });
  const first = lines.next();
  const { code: ending, made } = await finished(startedOf(daemon, wanted.words, first), context.signals);
  if (made.done || made.value.type !== "started") throw new CliError("Cannot run it: the daemon says nothing about it");
  const { command, sandbox: there } = made.value;
  let isGone = keep;
  try {
    if (ending !== undefined) return ending;
    announce(there, keep, context);
    const attention = { ...wanted, left, afterwards: afterwardsOf(there.name, keep), lines: untilEnd() };
    return await attend(daemon, { session: command.sessionId, command: command.id }, attention, context);
  } finally {
    left.abort();
    if (!isGone) await remove(daemon, there.name, context);
  }

  async function* untilEnd(): AsyncGenerator<RunLine> {
    for await (const line of lines) {
      if (line.type === "ended") isGone = true;
      yield line;
    }
  }
}

async function stepByStep(daemon: Daemon, wanted: Wanted, context: CommandContext): Promise<number> {
  const { sandbox: body, keep, sync, volumes } = wanted;
  const { code: ending, made } = await finished(
    daemon.ask("make a sandbox", daemon.client.call("createSandbox", { query: daemon.scope, body })),
    context.signals,
  );
  const { name, session } = made;
  let isKept = keep;
  try {
    if (ending !== undefined) return ending;
    announce(made, keep, context);
    const { Folders } = await import("../files/run-folders.ts");
    const folders = new Folders(daemon, session, volumes);
    const interrupted = await signalBefore(folders.copyIn(context), context.signals);
    if (interrupted !== undefined) return interrupted;
    const spec = { ...wanted, session: session.id, cwd: wanted.cwd ?? folders.first };
    const code = await runProgram(daemon, { ...spec, afterwards: afterwardsOf(name, keep) }, context);
    if (sync) {
      // Its changes are nowhere else.
      isKept = true;
      await folders.bringBack(name, context);
      isKept = keep;
    }
    return code;
  } finally {
    if (!isKept) await remove(daemon, name, context);
  }
}

function announce({ name, ports, timeout }: Made, keep: boolean, { warn }: CommandContext): void {
  for (const { port, url } of ports) warn(`Port ${port} is at ${url}`);
  if (keep) warn(`The sandbox is "${name}"; it stays, and is stopped after ${durationInWords(timeout)} (--timeout)`);
}

interface Made {
  name: string;
  /** ms */
  timeout: number;
  ports: { port: number; url: string | null }[];
}

function afterwardsOf(name: string, keep: boolean): string {
  return keep ? `it goes on in the sandbox "${name}", which stays` : `it ends with its sandbox, which is deleted`;
}

async function remove(daemon: Daemon, sandbox: string, { warn }: CommandContext): Promise<void> {
  const input = { params: { sandbox }, query: { ...daemon.scope, snapshots: true } };
  await daemon.client.call("deleteSandbox", input).catch((error) => {
    warn(`Cannot delete the sandbox "${sandbox}": ${error instanceof Error ? error.message : error}`);
  });
}

/**
 * The program is what follows "--". Without it, the first word is the image and all after it the program, also what
 * looks like an option.
 */
export function splitAtProgram(args: string[]): { own: string[]; words: string[] } {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  const [image, second] = tokens.filter(({ kind }) => kind === "positional");
  const dashes = tokens.find(({ kind }) => kind === "option-terminator")?.index ?? args.length;
  if (!image || !second || second.index > dashes) return { own: args.slice(0, dashes), words: args.slice(dashes + 1) };
  return { own: args.slice(0, image.index + 1), words: args.slice(image.index + 1) };
}

/** undefined if nothing is said about the network */
async function accessOf({ allow, header }: Settings, environment: NodeJS.ProcessEnv) {
  if (!allow && !header) return undefined;
  const { networkAccessOf } = await import("../network-access.ts");
  return networkAccessOf({ allow, header }, environment);
}

/** the settings of a new sandbox */
export function settingsOf(
  { name, env, cpus, memory, timeout, drive, port }: Settings,
  environment: NodeJS.ProcessEnv,
  networkPolicy?: NetworkAccess,
) {
  return {
    ...(name !== undefined && { name }),
    ...(env && { env: variablesOf(env, environment) }),
    ...(cpus !== undefined && { vcpus: numberOf("--cpus", cpus) }),
    ...(memory !== undefined && { memory: memoryOf("--memory", memory) }),
    ...(timeout !== undefined && { timeout: durationOf("--timeout", timeout) }),
    ...(networkPolicy !== undefined && { networkPolicy }),
    ...(drive && { mounts: Object.fromEntries(drive.map(mountOf)) }),
    ...(port && { ports: port.map(portOf) }),
  };
}

interface Settings {
  name?: string | undefined;
  env?: string[] | undefined;
  cpus?: string | undefined;
  memory?: string | undefined;
  timeout?: string | undefined;
  allow?: string[] | undefined;
  header?: string[] | undefined;
  drive?: string[] | undefined;
  port?: string[] | undefined;
}

function mountOf(text: string): [path: string, mount: { drive: string }] {
  const [, drive = "", path = ""] = /^([^:/]+):(\/.+)$/s.exec(text) ?? [];
  if (drive !== "") return [path, { drive }];
  throw new CliError(`Cannot use --drive "${text}": it must be <name>:<path>, with a path that begins with "/"`);
}

/** a folder of this host, and where it is copied to */
export function volumeOf(text: string): Volume {
  const [, local = text, remote] = /^(.+?):([^:]+)$/s.exec(text) ?? [];
  const whole = resolve(local);
  if (!process.getBuiltinModule("node:fs").statSync(whole, { throwIfNoEntry: false })?.isDirectory())
    throw new CliError(`Cannot use -v "${text}": "${local}" is not a directory`);
  return { local: whole, remote: remote ?? (basename(whole) || "root") };
}

/** the exit code for a signal that comes before the work is done; undefined if none does */
async function signalBefore(work: Promise<void>, signals: NodeJS.EventEmitter): Promise<number | undefined> {
  const { promise: signal, resolve: received } = Promise.withResolvers<number>();
  const listener = (name: keyof typeof exitCodes) => received(exitCodes[name]);
  for (const name of Object.keys(exitCodes)) signals.on(name, listener);
  try {
    return (await Promise.race([work, signal])) ?? undefined;
  } finally {
    for (const name of Object.keys(exitCodes)) signals.off(name, listener);
    // What it was doing fails when the sandbox is deleted.
    void work.catch(() => undefined);
  }
}

/** A signal does not interrupt the making of a sandbox, as it could not be deleted then. `code` is set if one came. */
async function finished<T>(
  making: Promise<T>,
  signals: NodeJS.EventEmitter,
): Promise<{ made: T; code: number | undefined }> {
  let code: number | undefined;
  const listener = (received: keyof typeof exitCodes) => {
    code = exitCodes[received];
  };
  for (const name of Object.keys(exitCodes)) signals.on(name, listener);
  try {
    return { made: await making, code };
  } finally {
    for (const name of Object.keys(exitCodes)) signals.off(name, listener);
  }
}
