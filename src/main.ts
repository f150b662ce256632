/** The entry point of bin/sandkeep: starts the requested command, and loads a command's code only when needed. */

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, realpathSync } from "node:fs";
import { createRequire, enableCompileCache } from "node:module";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { didYouMean } from "./base/similar.ts";
import type { Command } from "./cli/command.ts";
import { CliError } from "./cli/errors.ts";
import { plainLines } from "./cli/print/egress-table.ts";
import { messageOf, SandkeepError } from "./core/model/errors.ts";
import { BrokenOutput, brokenPipe, type Output, outputUntilClosed } from "./daemon/signals.ts";
import { compileCache, launcher, redirects, root } from "./installation/installation.ts";

const usage = `Usage: sandkeep <command>

Sandboxes:
  run      make a sandbox, run a program in it, and delete it
  exec     run a program in a sandbox
  shell    open a shell in a sandbox
  ls       list sandboxes
  ps       list the programs in sandboxes
  logs     show the output of a program
  stop     stop sandboxes
  rm       delete sandboxes
  cp       copy files between this host and a sandbox
  snapshot keep the files of a sandbox, list and delete what is kept
  fork     make a sandbox with the files of another
  restore  bring a sandbox back to a snapshot
  port     give ports of a sandbox an address, and list them
  events   show what happens in a project
  top      show what the running sandboxes use, again and again
  drive    create, list, resize, copy and delete durable volumes
  team     list and create teams
  quota    show and set how much of the host a team may use

Commands:
  serve    run the daemon
  recover  list what the database lacks of the data directory, and add it
  image    pull, import, build, list and delete the images that sandboxes boot from
  registry log in to and out of registries that images are pulled from
  egress   show a sandbox's outbound connections, whether each was allowed, and a policy for them
  key      create, list and delete keys, with or without limits
  env      print the settings that point a service's own SDK and CLI at the daemon
  mcp      serve the daemon's MCP tools over standard input and output
  open     print a link that signs a browser in to the dashboard
  context  remember several daemons, and choose the one that commands ask
  completion  print a script that completes commands in bash, zsh or fish
  upgrade  replace the processes that outlived an upgrade of the package
  doctor   show what isolation this host can give, and what is missing
  help     show this; before a command, show that command's

Options:
  -h, --help       show this; after a command, show that command's
  -v, --version    show the version
`;

/** commands on sandboxes, which all get the same surroundings */
const onSandboxes: Record<string, () => Promise<Command>> = {
  run: async () => (await import("./cli/sandboxes/run.ts")).runCommand,
  exec: async () => (await import("./cli/sandboxes/exec.ts")).execCommand,
  shell: async () => (await import("./cli/sandboxes/exec.ts")).shellCommand,
  ls: async () => (await import("./cli/sandboxes/list.ts")).lsCommand,
  ps: async () => (await import("./cli/sandboxes/list.ts")).psCommand,
  logs: async () => (await import("./cli/sandboxes/logs.ts")).logsCommand,
  stop: async () => (await import("./cli/sandboxes/end.ts")).stopCommand,
  rm: async () => (await import("./cli/sandboxes/end.ts")).rmCommand,
  cp: async () => (await import("./cli/sandboxes/cp.ts")).cpCommand,
  snapshot: async () => (await import("./cli/sandboxes/snapshots.ts")).snapshotCommand,
  fork: async () => (await import("./cli/sandboxes/snapshots.ts")).forkCommand,
  restore: async () => (await import("./cli/sandboxes/snapshots.ts")).restoreCommand,
  port: async () => (await import("./cli/sandboxes/port.ts")).portCommand,
  events: async () => (await import("./cli/sandboxes/events.ts")).eventsCommand,
  top: async () => (await import("./cli/sandboxes/top.ts")).topCommand,
  drive: async () => (await import("./cli/commands/drive.ts")).driveCommand,
  team: async () => (await import("./cli/commands/team.ts")).teamCommand,
  quota: async () => (await import("./cli/commands/team.ts")).quotaCommand,
  context: async () => (await import("./cli/commands/context.ts")).contextCommand,
};

/** each may return an exit code; any other value means 0 */
const commands: Record<string, (args: string[]) => Promise<unknown>> = {
  serve,
  recover,
  image,
  registry,
  egress,
  key,
  env,
  mcp,
  open,
  completion,
  upgrade,
  doctor,
  ...Object.fromEntries(Object.keys(onSandboxes).map((name) => [name, (args: string[]) => onSandbox(name, args)])),
};

/** commands that must close what they have opened, even if the reader of their output is gone */
const closing = ["recover", "image", "run"];

const isRoot = process.getuid?.() === 0;
let output: Output | undefined;

// Halves a command's load time. If the folder is not writable, Node goes on without the cache. bin/sandkeep sets it for
// the first modules, and programs that are started from here have no use for it.
enableCompileCache(compileCache);
if (process.env.NODE_COMPILE_CACHE === compileCache) delete process.env.NODE_COMPILE_CACHE;
process.exitCode = await main(asOption(process.argv.slice(2)));

/** turns "help env" into "env --help" */
function asOption([name, ...rest]: string[]): string[] {
  if (name !== "help") return name === undefined ? [] : [name, ...rest];
  return [...rest.slice(0, 1), "--help"];
}

async function main(args: string[]): Promise<number> {
  const [name = "--help", ...rest] = args;
  // A daemon must outlive the readers of its output.
  if (name !== "serve") output = outputUntilClosed((error) => endOf(error, name));
  try {
    if (name === "-h" || name === "--help") print(usage.trimEnd());
    else if (name === "-v" || name === "--version") print(version());
    else {
      const code = await commandNamed(name)(rest);
      if (typeof code === "number") return code;
    }
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof BrokenOutput) return Number(process.exitCode ?? 1);
    // A sandbox may have chosen a name in it.
    process.stderr.write(`sandkeep: ${plainLines(messageOf(error))}\n`);
    // Our own errors are sentences; anything else is a bug, so print its stack.
    const ours = error instanceof SandkeepError || error instanceof CliError;
    if (!ours && error instanceof Error) process.stderr.write(`${plainLines(error.stack ?? "")}\n`);
    // Open handles must not keep the process alive: the caller waits for its end.
    setTimeout(() => process.exit(1), 1000).unref();
    return 1;
  }
}

/** handles broken output: a command with nothing open exits at once, others when they print again */
function endOf(error: NodeJS.ErrnoException, name: string): void {
  const isGone = error.code === "EPIPE";
  if (!isGone) process.stderr.write(`sandkeep: Cannot write the output: ${error.message}\n`);
  process.exitCode = isGone ? brokenPipe : 1;
  if (!closing.includes(name)) process.exit();
}

function commandNamed(name: string): (args: string[]) => Promise<unknown> {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) {
    const meant = didYouMean(name, [...Object.keys(commands), "help"]);
    const why = `there is no such command${meant === "" ? "" : `. ${meant}`}`;
    throw new SandkeepError("invalid", `Cannot do "${name}": ${why}\n\n${usage}`);
  }
  return command;
}

async function onSandbox(name: string, args: string[], printed = print): Promise<number | undefined> {
  const command = await onSandboxes[name]?.();
  return command?.(args, {
    // What makes a context must not need one.
    environment: name === "context" ? process.env : await chosenDaemon(args),
    dataDirs: await dataDirs(),
    input: process.stdin,
    output: process.stdout,
    errors: process.stderr,
    signals: process,
    now: Date.now,
    print: printed,
    warn,
    async write(stream, data) {
      // A reader that exits meanwhile makes the next write throw.
      if (!write(stream, data)) await once(stream, "drain").catch(() => undefined);
    },
  });
}

/** the environment, with the daemon that `sandkeep context` has chosen */
async function chosenDaemon(args: string[]): Promise<NodeJS.ProcessEnv> {
  const { withContext } = await import("./cli/client/contexts.ts");
  return withContext(args, process.env);
}

async function completion(args: string[]): Promise<void> {
  const { completionCommand } = await import("./cli/commands/completion.ts");
  const captured = async (name: string, words: string[]) => {
    const lines: string[] = [];
    if (Object.hasOwn(onSandboxes, name)) await onSandbox(name, words, (line) => void lines.push(line));
    return lines;
  };
  await completionCommand(args, {
    commands: [...Object.keys(commands), "help"],
    usage: async (name) => (await captured(name, ["--help"])).join("\n"),
    sandboxes: () => captured("ls", ["-q"]).catch(() => []),
    print,
  });
}

async function serve(args: string[]): Promise<void> {
  const daemon = await import("./daemon/daemon.ts");
  await daemon.serve(args);
}

async function recover(args: string[]): Promise<void> {
  const { recoverCommand } = await import("./cli/offline/recover.ts");
  const { openForRecovery } = await import("./daemon/daemon.ts");
  await recoverCommand(args, { open: openForRecovery, freshIdentity: () => randomUUID(), print });
}

async function image(args: string[]): Promise<void> {
  const { imageBuildCommand, needsDaemon } = await import("./cli/commands/image-build.ts");
  if (needsDaemon(args)) {
    return imageBuildCommand(args, {
      environment: process.env,
      dataDirs: await dataDirs(),
      input: process.stdin,
      output: process.stdout,
      print,
      progress: (text) => write(process.stderr, text),
    });
  }
  const { imageCommand } = await import("./cli/offline/image.ts");
  const { openOfflineStore } = await import("./cli/offline/offline-store.ts");
  const { conventions } = await import("./api/default-dialect.ts");
  const { nativeProgram } = await import("./installation/native-program.ts");
  const { dataDirectory, makeDirectory, runDirectory } = await import("./config/directories.ts");
  const { readConfig } = await import("./config/config.ts");
  const { SANDKEEP_DATA_DIR: home, SANDKEEP_RUN_DIR: run } = process.env;
  const { registryAccess } = await import("./runtime/linux/registry/access.ts");
  const { egressSettingsOf } = await import("./config/network-settings.ts");
  const { openSeal } = await import("./daemon/secrets.ts");
  const { lockIfFree } = await import("./store/engines/directory-lock.ts");
  const { redrawn } = await import("./cli/print/output.ts");
  const config = readConfig([], process.env);
  await imageCommand(args, {
    async open({ dataDir = home || "/var/lib/sandkeep", runDir = run || "/run/sandkeep", create }) {
      const [data, runRoot] = [dataDirectory(resolve(dataDir)), runDirectory(resolve(runDir))];
      if (!create && !existsSync(data.path)) throw noDataDirectory(data.path);
      return openOfflineStore({
        dataDir: data.path,
        conventions: conventions.image,
        runRoot: runRoot.path,
        reserve: config.diskReserve,
        lock: () => lockIfFree(data.path),
        directories: [data, runRoot].values().map(makeDirectory),
        guest: () => nativeProgram({ root, dataDir, say: warn }),
      });
    },
    registries(dataDir = home || "/var/lib/sandkeep") {
      const { path } = dataDirectory(resolve(dataDir));
      const seal = openSeal(join(path, "secret.key"));
      return registryAccess({ ...config, dataDir: path, seal, roots: egressSettingsOf(config).roots, warn });
    },
    input: process.stdin,
    print,
    progress: (line) => write(process.stderr, `${line}\n`),
    ...(process.stderr.isTTY && {
      redraw: (line: string) => write(process.stderr, redrawn(line, process.stderr.columns)),
    }),
  });
}

async function registry(args: string[]): Promise<void> {
  const { registryCommand } = await import("./cli/offline/registry.ts");
  const { readConfig } = await import("./config/config.ts");
  const { dataDirectory, makeDirectory } = await import("./config/directories.ts");
  const { registryAccess } = await import("./runtime/linux/registry/access.ts");
  const { egressSettingsOf } = await import("./config/network-settings.ts");
  const { openSeal } = await import("./daemon/secrets.ts");
  const { hiddenLine } = await import("./cli/print/hidden-line.ts");
  const config = readConfig([], process.env);
  await registryCommand(args, {
    open(dataDir = config.dataDir) {
      const directory = dataDirectory(resolve(dataDir));
      makeDirectory(directory);
      const seal = openSeal(join(directory.path, "secret.key"));
      const { roots } = egressSettingsOf(config);
      return registryAccess({ ...config, dataDir: directory.path, seal, roots, warn }).credentials;
    },
    ...(process.stdin.isTTY && { prompt: (question: string) => hiddenLine(question, process.stdin, process.stderr) }),
    input: process.stdin,
    print,
  });
}

async function env(args: string[]): Promise<void> {
  const { envCommand } = await import("./cli/commands/env.ts");
  const { makeOidcToken } = await import("./api/default-dialect.ts");
  await envCommand(args, {
    environment: process.env,
    preload: pathToFileURL(join(redirects, "preload.mjs")).href,
    pythonPath: join(redirects, "python"),
    token: makeOidcToken,
    dataDirs: await dataDirs(),
    print,
    warn,
  });
}

async function egress(args: string[]): Promise<void> {
  const { egressCommand } = await import("./cli/commands/egress.ts");
  await egressCommand(args, { environment: await chosenDaemon(args), dataDirs: await dataDirs(), print, warn });
}

async function key(args: string[]): Promise<void> {
  const { keyCommand } = await import("./cli/commands/key.ts");
  const environment = await chosenDaemon(args);
  await keyCommand(args, { environment, dataDirs: await dataDirs(), now: Date.now, print, warn });
}

async function mcp(args: string[]): Promise<number | undefined> {
  const { mcpCommand } = await import("./cli/commands/mcp.ts");
  return mcpCommand(args, {
    environment: process.env,
    dataDirs: await dataDirs(),
    version: version(),
    input: process.stdin,
    output: process.stdout,
    program: installed() ?? { command: process.execPath, args: [import.meta.filename] },
    print,
    warn,
  });
}

async function open(args: string[]): Promise<void> {
  const { openCommand } = await import("./cli/commands/open.ts");
  await openCommand(args, { environment: await chosenDaemon(args), dataDirs: await dataDirs(), print });
}

async function upgrade(args: string[]): Promise<void> {
  const { upgradeCommand } = await import("./cli/commands/upgrade.ts");
  await upgradeCommand(args, { environment: process.env, dataDirs: await dataDirs(), print });
}

/** the `sandkeep` on PATH, if it is this program */
function installed(): { command: string; args: string[] } | undefined {
  const places = (process.env.PATH ?? "").split(delimiter).filter((place) => isAbsolute(place));
  const command = places.map((place) => join(place, "sandkeep")).find((path) => realPath(path) === launcher);
  return command === undefined ? undefined : { command, args: [] };
}

/** undefined if the path does not exist */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

async function doctor(args: string[]): Promise<number> {
  const { doctorCommand } = await import("./cli/commands/doctor.ts");
  const { defaultDataDir, readConfig } = await import("./config/config.ts");
  const { hostFacts } = await import("./daemon/host-facts.ts");
  const home = process.env.SANDKEEP_DATA_DIR || defaultDataDir(process.env, isRoot);
  const facts = async (dataDir = home) => hostFacts(readConfig([], process.env), dataDir);
  return await doctorCommand(args, { facts, print });
}

/** directories that may hold the key; root's daemon may let other users read it */
async function dataDirs(): Promise<string[]> {
  const { defaultDataDir } = await import("./config/config.ts");
  const { SANDKEEP_DATA_DIR: dataDir } = process.env;
  return dataDir ? [dataDir] : [...new Set([isRoot, true].map((root) => defaultDataDir(process.env, root)))];
}

function warn(line: string): void {
  write(process.stderr, `sandkeep: ${plainLines(line)}\n`);
}

function print(line: string): void {
  write(process.stdout, `${line}\n`);
}

/** false if the stream must drain before more */
function write(stream: NodeJS.WriteStream, text: string | Uint8Array): boolean {
  return output ? output.write(stream, text) : stream.write(text);
}

function version(): string {
  const { version } = createRequire(import.meta.url)(join(root, "package.json")) as { version: string };
  return version;
}

function noDataDirectory(path: string): Error {
  const where = "--data-dir or SANDKEEP_DATA_DIR says where it is";
  return new CliError(`Cannot work on the images of "${path}": there is no such directory`, where);
}
