/** `sandkeep run`: makes a sandbox, runs a program in it, and deletes it. */

import { statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { readArgs } from "../args.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, showUsage } from "../command.ts";
import { CliError } from "../errors.ts";
import { bringBack, copyIn, type Folder } from "../files/folder-sync.ts";
import { RemoteFiles } from "../files/remote-files.ts";
import { networkAccessOf } from "../network-access.ts";
import { plain } from "../print/egress-table.ts";
import { durationOf, memoryOf, numberOf, portOf, variablesOf } from "../units.ts";
import { requireTerminal, runProgram, splitAtDashes } from "./program.ts";

export const runUsage = `Usage: sandkeep run [options] [image] -- <program> [arguments]
       sandkeep run -it [options] [image]
       sandkeep run [options] <image>

Makes a sandbox, runs a program in it with its output here, and deletes the sandbox. The exit code is the program's.
Ctrl-C goes to the program; the third one kills it. With no program, a shell runs (-it), or the image's own program.

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

export async function runCommand(args: string[], context: CommandContext): Promise<number | undefined> {
  const { own, words } = splitAtDashes(args);
  const { values, positionals } = readArgs(own, runUsage, options);
  if (values.help) return showUsage(runUsage, context);
  const { interactive = false, tty = false, json = false, keep = false, sync = false } = values;
  const [image, ...rest] = positionals;
  if (rest.length > 0) {
    const meant = `sandkeep run ${image} -- ${rest.join(" ")}`;
    throw new CliError(`Cannot run "${rest[0]}": "--" must come before the program`, meant);
  }
  if (!words?.length && !tty && image === undefined)
    throw new CliError(`Cannot run nothing: name a program\n\n${runUsage.trimEnd()}`);
  if (tty) requireTerminal(context, json);
  const volumes = (values.volume ?? []).map(volumeOf);
  if (sync && volumes.length === 0) throw new CliError("Cannot use --sync: no folder is named with -v");
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
  const folders = new Folders(daemon, session, volumes);
  let isKept = keep;
  try {
    if (!isWanted) return 130;
    for (const { port, url } of ports) context.warn(`Port ${port} is at ${url}`);
    if (keep) context.warn(`The sandbox is "${name}"; it stays`);
    await folders.copyIn();
    const cwd = values.cwd ?? folders.first;
    const shell = ["sh", "-c", "exec $(command -v bash || echo sh)"];
    const program = words?.length || !tty ? (words ?? []) : shell;
    const spec = { words: program, session: session.id, interactive: interactive && !tty, tty, json, cwd };
    const code = await runProgram(daemon, { ...spec, user: values.user }, context);
    if (sync) {
      // Its changes are nowhere else.
      isKept = true;
      await folders.bringBack(name, context);
      isKept = keep;
    }
    return code;
  } finally {
    if (!isKept) {
      const input = { params: { sandbox: name }, query: { ...daemon.scope, snapshots: true } };
      await daemon.client.call("deleteSandbox", input).catch((error) => {
        context.warn(`Cannot delete the sandbox "${name}": ${error instanceof Error ? error.message : error}`);
      });
    }
  }
}

/** the settings of a new sandbox */
export function settingsOf(
  { name, env, cpus, memory, timeout, allow, header, drive, port }: Settings,
  environment: NodeJS.ProcessEnv,
) {
  const networkPolicy = networkAccessOf({ allow, header }, environment);
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

interface Volume {
  local: string;
  /** path in the sandbox; relative to where programs start */
  remote: string;
}

/** a folder of this host, and where it is copied to */
export function volumeOf(text: string): Volume {
  const [, local = text, remote] = /^(.+?):([^:]+)$/s.exec(text) ?? [];
  const whole = resolve(local);
  if (!statSync(whole, { throwIfNoEntry: false })?.isDirectory())
    throw new CliError(`Cannot use -v "${text}": "${local}" is not a directory`);
  return { local: whole, remote: remote ?? (basename(whole) || "root") };
}

/** The folders that a sandbox gets copies of. */
class Folders {
  readonly #files: RemoteFiles;
  readonly #folders: { folder: Folder; before: string[] }[];

  constructor(daemon: Daemon, session: { id: string; cwd: string }, volumes: Volume[]) {
    this.#files = new RemoteFiles(daemon, session, { what: "copy a folder" });
    this.#folders = volumes.map(({ local, remote }) => ({
      folder: { local, remote: this.#files.absolute(remote) },
      before: [],
    }));
  }

  get first(): string | undefined {
    return this.#folders[0]?.folder.remote;
  }

  async copyIn(): Promise<void> {
    for (const each of this.#folders) each.before = [...(await copyIn(each.folder, this.#files)).keys()];
  }

  async bringBack(sandbox: string, { warn }: CommandContext): Promise<void> {
    for (const { folder, before } of this.#folders) {
      const { written, removed, skipped } = await bringBack(folder, before, this.#files).catch((cause) => {
        const why = cause instanceof Error ? cause.message : cause;
        const hint = `the sandbox "${sandbox}" stays; sandkeep cp copies from "${folder.remote}"`;
        throw new CliError(`Cannot bring back the changes of "${folder.local}": ${why}`, hint);
      });
      warn(`Brought back to "${folder.local}": ${written} written, ${removed} removed`);
      for (const path of skipped) warn(`Left "${plain(path)}" as it is: the directory there has other files`);
    }
  }
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
