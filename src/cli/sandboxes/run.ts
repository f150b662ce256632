/** `sandkeep run`: makes a sandbox, runs a program in it, and deletes it. */

import { readArgs } from "../args.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { durationOf, memoryOf, numberOf, portOf, variablesOf } from "../units.ts";
import { requireTerminal, runProgram, splitAtDashes } from "./program.ts";

export const runUsage = `Usage: sandkeep run [options] [image] -- <program> [arguments]
       sandkeep run -it [options] [image]

Makes a sandbox, runs a program in it with its output here, and deletes the sandbox. The exit code is the program's.
Ctrl-C goes to the program; the third one kills it. With -it and no program, a shell runs.

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
  --timeout <duration>     longest that the sandbox runs, such as 90s, 5m or 12h
  --allow <domain>         let it reach this domain or range, and nothing else but such; may be repeated
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
  drive: { type: "string", multiple: true },
  port: { type: "string", short: "p", multiple: true },
  ...daemonOptions,
} as const;

export async function runCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { own, words } = splitAtDashes(args);
  const { values, positionals } = readArgs(own, runUsage, options);
  if (values.help) return showUsage(runUsage, context);
  const { interactive = false, tty = false, json = false, keep = false, cwd } = values;
  const [image, ...rest] = positionals;
  if (rest.length > 0) {
    const meant = `sandkeep run ${image} -- ${rest.join(" ")}`;
    throw new CliError(`Cannot run "${rest[0]}": "--" must come before the program`, meant);
  }
  if (!words?.length && !tty) throw new CliError(`Cannot run nothing: name a program\n\n${runUsage.trimEnd()}`);
  if (tty) requireTerminal(context, json);
  const body = {
    ...settingsOf(values, context.environment),
    ...(image !== undefined && { image }),
    persistent: keep,
  };
  const daemon = new Daemon(values, context);
  const { isWanted, made } = await finished(
    daemon.ask("make a sandbox", daemon.client.call("createSandbox", { query: daemon.scope, body })),
    context.signals,
  );
  const { name, session, ports } = made;
  try {
    if (!isWanted) return 130;
    for (const { port, url } of ports) context.warn(`Port ${port} is at ${url}`);
    if (keep) context.warn(`The sandbox is "${name}"; it stays`);
    const program = words?.length ? words : ["sh", "-c", "exec $(command -v bash || echo sh)"];
    const spec = { words: program, session: session.id, interactive: interactive && !tty, tty, json, cwd };
    return await runProgram(daemon, { ...spec, user: values.user }, context);
  } finally {
    if (!keep) {
      const input = { params: { sandbox: name }, query: { ...daemon.scope, snapshots: true } };
      await daemon.client.call("deleteSandbox", input).catch((error) => {
        context.warn(`Cannot delete the sandbox "${name}": ${error instanceof Error ? error.message : error}`);
      });
    }
  }
}

/** the settings of a new sandbox */
export function settingsOf(
  { name, env, cpus, memory, timeout, allow, drive, port }: Settings,
  environment: NodeJS.ProcessEnv,
) {
  return {
    ...(name !== undefined && { name }),
    ...(env && { env: variablesOf(env, environment) }),
    ...(cpus !== undefined && { vcpus: numberOf("--cpus", cpus) }),
    ...(memory !== undefined && { memory: memoryOf("--memory", memory) }),
    ...(timeout !== undefined && { timeout: durationOf("--timeout", timeout) }),
    ...(allow && { networkPolicy: allow.join(", ") }),
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
  drive?: string[] | undefined;
  port?: string[] | undefined;
}

function mountOf(text: string): [path: string, mount: { drive: string }] {
  const [, drive = "", path = ""] = /^([^:/]+):(\/.+)$/s.exec(text) ?? [];
  if (drive !== "") return [path, { drive }];
  throw new CliError(`Cannot use --drive "${text}": it must be <name>:<path>, with a path that begins with "/"`);
}

/** A signal does not interrupt the making of a sandbox, as it could not be deleted then. `isWanted`: none came. */
async function finished<T>(making: Promise<T>, signals: NodeJS.EventEmitter): Promise<{ made: T; isWanted: boolean }> {
  let isWanted = true;
  const listener = () => {
    isWanted = false;
  };
  const names = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const name of names) signals.on(name, listener);
  try {
    return { made: await making, isWanted };
  } finally {
    for (const name of names) signals.off(name, listener);
  }
}
