/**
 * `sandkeep run`: makes a sandbox, runs a program in it, and deletes it. Modules that a plain run does without are loaded
 * only by others.
 */

import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, encodingOf, exitCodes, parseArgs, readArgs, showUsage, startOf } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import type { RunLine } from "./program.ts";
import type { RunSettings } from "./run-settings.ts";

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
  const { values, positionals } = await readArgs(own, runUsage, options, otherOptions);
  if (values.help) return showUsage(runUsage, context);
  const { tty = false, json = false, keep = false, sync = false } = values;
  if (words.length === 0 && !tty && positionals.length === 0)
    throw misuse("Cannot run nothing: name a program", runUsage);
  if (tty) (await import("./program.ts")).requireTerminal(context, json);
  const { sandbox: settings, volumes } = await settingsOf(values, context.environment);
  if (sync && volumes.length === 0) throw new CliError("Cannot use --sync: no folder is named with -v");
  const sandbox = {
    ...settings,
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
  const run = volumes.length === 0 && !tty ? inOneRequest : (await import("./run-steps.ts")).stepByStep;
  return run(daemon, wanted, context).catch(async (error) => {
    const { inOwnWords } = await import("./run-refusal.ts");
    throw args.includes("--") ? inOwnWords(error) : inOwnWords(error, [...positionals, ...words]);
  });
}

type Values = Awaited<ReturnType<typeof readArgs<typeof options>>>["values"];

/** options that say something about the sandbox */
const ofSandbox = ["name", "env", "cpus", "memory", "timeout", "allow", "header", "volume", "drive", "port"] as const;

async function settingsOf(values: Values, environment: NodeJS.ProcessEnv): Promise<RunSettings> {
  if (ofSandbox.every((name) => values[name] === undefined)) return { sandbox: {}, volumes: [] };
  return (await import("./run-settings.ts")).runSettings(values, environment);
}

export interface Wanted {
  sandbox: RunSettings["sandbox"] & { image?: string; persistent: boolean };
  keep: boolean;
  sync: boolean;
  volumes: RunSettings["volumes"];
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
  const { code: ending, made } = await finished(answered(), context, () => left.abort());
  // The daemon deletes what it makes for a client that has gone.
  if (made === undefined) return ending;
  const { first, attend } = made;
  if (first.done || first.value.type !== "started")
    throw new CliError("Cannot run it: the daemon says nothing about it");
  const { command, sandbox: there } = first.value;
  let isGone = keep;
  try {
    if (ending !== undefined) return ending;
    await announce(there, keep, context);
    const attention = { ...wanted, left, afterwards: afterwardsOf(there.name, keep), lines: untilEnd() };
    return await attend(daemon, { session: command.sessionId, command: command.id }, attention, context);
  } finally {
    left.abort();
    if (!isGone) await remove(daemon, there.name, context);
  }

  /** The daemon has work to do until it answers: what only the answer needs is loaded once the request is sent. */
  async function answered() {
    const next = lines.next();
    void next.catch(() => undefined);
    await new Promise(setImmediate);
    const { attend, startedOf } = await import("./program.ts");
    const first = whilePulling(daemon, sandbox.image, startedOf(daemon, wanted.words, next), context);
    return { first: await first, attend };
  }

  async function* untilEnd(): AsyncGenerator<RunLine> {
    for await (const line of lines) {
      if (line.type === "ended") isGone = true;
      yield line;
    }
  }
}

export async function announce({ name, ports, timeout }: Made, keep: boolean, { warn }: CommandContext) {
  for (const { port, url } of ports) warn(`Port ${port} is at ${url}`);
  if (!keep) return;
  const { durationInWords } = await import("../units.ts");
  warn(`The sandbox is "${name}"; it stays, and is stopped after ${durationInWords(timeout)} (--timeout)`);
}

interface Made {
  name: string;
  /** ms */
  timeout: number;
  ports: { port: number; url: string | null }[];
}

export function afterwardsOf(name: string, keep: boolean): string {
  return keep ? `it goes on in the sandbox "${name}", which stays` : `it ends with its sandbox, which is deleted`;
}

export async function remove(daemon: Daemon, sandbox: string, { warn }: CommandContext): Promise<void> {
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
  if (args[0] === "--") return { own: [], words: args.slice(1) };
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true });
  const [image, second] = tokens.filter(({ kind }) => kind === "positional");
  const dashes = tokens.find(({ kind }) => kind === "option-terminator")?.index ?? args.length;
  if (!image || !second || second.index > dashes) return { own: args.slice(0, dashes), words: args.slice(dashes + 1) };
  return { own: args.slice(0, image.index + 1), words: args.slice(image.index + 1) };
}

/** ms before the first sign of life */
const quiet = 500;

/** Shows the pull of the image that the daemon may have to do first; a sandbox that is there soon loads nothing for it. */
export async function whilePulling<T>(
  daemon: Daemon,
  image: string | undefined,
  making: Promise<T>,
  context: CommandContext,
): Promise<T> {
  if (image === undefined) return making;
  const done = new AbortController();
  let showing: Promise<void> | undefined;
  const timer = setTimeout(() => {
    const loaded = import("./pull-progress.ts");
    // The run goes on without it.
    showing = loaded.then(({ showPull }) => showPull(daemon, image, context, done.signal)).catch(() => undefined);
  }, quiet);
  try {
    return await making;
  } finally {
    clearTimeout(timer);
    done.abort();
    await showing;
  }
}

/**
 * The first signal does not interrupt the making of a sandbox, which is deleted once it is there. `code` is set if one
 * came. A pull may take minutes, so the second one calls `abandon`, and nothing is made then.
 */
export async function finished<T>(
  making: Promise<T>,
  { signals, errors, warn, write }: CommandContext,
  abandon: () => void,
): Promise<{ made: T; code: number | undefined } | { made?: undefined; code: number }> {
  let code: number | undefined;
  let isAbandoned = false;
  let timer: NodeJS.Timeout | undefined;
  const listener = (received: keyof typeof exitCodes) => {
    isAbandoned = code !== undefined;
    code = exitCodes[received];
    if (isAbandoned) return abandon();
    timer = setTimeout(() => {
      // The terminal has shown ^C where the cursor was.
      if (errors.isTTY) void write(errors, "\r\x1b[K");
      warn("The sandbox is deleted when it has been made; a second Ctrl-C does not wait");
    }, quiet);
  };
  for (const name of Object.keys(exitCodes)) signals.on(name, listener);
  try {
    return { made: await making, code };
  } catch (error) {
    if (!isAbandoned || code === undefined) throw error;
    return { code };
  } finally {
    clearTimeout(timer);
    for (const name of Object.keys(exitCodes)) signals.off(name, listener);
  }
}
