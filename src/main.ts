/**
 * The entry point of bin/sandkeep: the table of commands. The code of a command is loaded only when it is used.
 *
 * A short command spends most of its time on loading. Modules that it shares with every other one therefore get Node's
 * own from process.getBuiltinModule: an import computes the values of all getters of a module, and those of node:fs load
 * streams, promises and a line editor.
 */

import type { Command, CommandContext } from "./cli/command.ts";
import { CliError } from "./cli/errors.ts";
import { plainLines } from "./cli/print/plain.ts";
import { defaultDataDir } from "./config/default-data-dir.ts";
import { BrokenOutput, brokenPipe, type Output, outputUntilClosed } from "./daemon/signals.ts";

interface Listed {
  /** what the list of commands says about it */
  summary: string;
  load(): Promise<Command>;
  /** whether it works without a daemon, so that no context is chosen */
  isLocal?: boolean;
  /** whether it must close what it has opened, even if the reader of its output is gone */
  isClosing?: boolean;
}

const onHost = () => import("./host-commands.ts");

const sandboxCommands: Record<string, Listed> = {
  run: {
    summary: "make a sandbox, run a program in it, and delete it",
    load: async () => (await import("./cli/sandboxes/run.ts")).runCommand,
    isClosing: true,
  },
  exec: {
    summary: "run a program in a sandbox",
    load: async () => (await import("./cli/sandboxes/exec.ts")).execCommand,
  },
  shell: {
    summary: "open a shell in a sandbox",
    load: async () => (await import("./cli/sandboxes/exec.ts")).shellCommand,
  },
  ls: {
    summary: "list sandboxes",
    load: async () => (await import("./cli/sandboxes/list.ts")).lsCommand,
  },
  ps: {
    summary: "list the programs in sandboxes",
    load: async () => (await import("./cli/sandboxes/list.ts")).psCommand,
  },
  logs: {
    summary: "show the output of a program",
    load: async () => (await import("./cli/sandboxes/logs.ts")).logsCommand,
  },
  stop: {
    summary: "stop sandboxes",
    load: async () => (await import("./cli/sandboxes/end.ts")).stopCommand,
  },
  extend: {
    summary: "give a running sandbox more time",
    load: async () => (await import("./cli/sandboxes/extend.ts")).extendCommand,
  },
  rm: {
    summary: "delete sandboxes",
    load: async () => (await import("./cli/sandboxes/end.ts")).rmCommand,
  },
  cp: {
    summary: "copy files between this host and a sandbox",
    load: async () => (await import("./cli/sandboxes/cp.ts")).cpCommand,
  },
  snapshot: {
    summary: "keep the files of a sandbox, list and delete what is kept",
    load: async () => (await import("./cli/sandboxes/snapshots.ts")).snapshotCommand,
  },
  fork: {
    summary: "make a sandbox with the files of another",
    load: async () => (await import("./cli/sandboxes/snapshots.ts")).forkCommand,
  },
  restore: {
    summary: "bring a sandbox back to a snapshot",
    load: async () => (await import("./cli/sandboxes/snapshots.ts")).restoreCommand,
  },
  diff: {
    summary: "list the files that changed since a snapshot",
    load: async () => (await import("./cli/sandboxes/diff.ts")).diffCommand,
  },
  port: {
    summary: "give ports of a sandbox an address, and list them",
    load: async () => (await import("./cli/sandboxes/port.ts")).portCommand,
  },
  events: {
    summary: "show what happens in a project",
    load: async () => (await import("./cli/sandboxes/events.ts")).eventsCommand,
  },
  top: {
    summary: "show what the running sandboxes use, again and again",
    load: async () => (await import("./cli/sandboxes/top.ts")).topCommand,
  },
  egress: {
    summary: "show a sandbox's outbound connections, whether each was allowed, and a policy for them",
    load: async () => (await import("./cli/commands/egress.ts")).egressCommand,
  },
  drive: {
    summary: "create, list, resize, copy and delete durable volumes",
    load: async () => (await import("./cli/commands/drive.ts")).driveCommand,
  },
};

const otherCommands: Record<string, Listed> = {
  serve: {
    summary: "run the daemon",
    load: async () => (await onHost()).serve,
    isLocal: true,
  },
  image: {
    summary: "pull, import, build, list and delete the images that sandboxes boot from",
    load: async () => (await onHost()).image,
    isClosing: true,
  },
  registry: {
    summary: "log in to and out of registries that images are pulled from",
    load: async () => (await onHost()).registry,
    isLocal: true,
  },
  team: {
    summary: "list, create and delete teams",
    load: async () => (await import("./cli/commands/team.ts")).teamCommand,
  },
  project: {
    summary: "list and create projects",
    load: async () => (await import("./cli/commands/project.ts")).projectCommand,
  },
  quota: {
    summary: "show and set how much of the host a team or a key may use",
    load: async () => (await import("./cli/commands/team.ts")).quotaCommand,
  },
  key: {
    summary: "create, list, rename and delete keys, with or without limits",
    load: async () => (await import("./cli/commands/key.ts")).keyCommand,
  },
  webhook: {
    summary: "send events to your server, and list what was sent",
    load: async () => (await import("./cli/commands/webhook.ts")).webhookCommand,
  },
  audit: {
    summary: "list who changed what",
    load: async () => (await import("./cli/commands/audit.ts")).auditCommand,
  },
  open: {
    summary: "open the dashboard in a browser that is signed in, or print the link",
    load: async () => (await import("./cli/commands/open.ts")).openCommand,
  },
  env: {
    summary: "print the settings that point a service's own SDK and CLI at the daemon",
    load: async () => (await onHost()).env,
  },
  mcp: {
    summary: "serve the daemon's MCP tools over standard input and output",
    load: async () => (await onHost()).mcp,
  },
  context: {
    summary: "remember several daemons, and choose the one that commands ask",
    load: async () => (await import("./cli/commands/context.ts")).contextCommand,
    isLocal: true,
  },
  completion: {
    summary: "print a script that completes commands in bash, zsh or fish",
    load: async () => completion,
    isLocal: true,
  },
  doctor: {
    summary: "show what isolation this host can give, and what is missing",
    load: async () => (await onHost()).doctor,
    isLocal: true,
  },
  recover: {
    summary: "list what the database lacks of the data directory, and add it",
    load: async () => (await onHost()).recover,
    isLocal: true,
    isClosing: true,
  },
  upgrade: {
    summary: "replace the processes that outlived an upgrade of the package",
    load: async () => (await onHost()).upgrade,
  },
};

const commands = { ...sandboxCommands, ...otherCommands };

let output: Output | undefined;

// Halves a command's load time. If the folder is not writable, Node goes on without the cache. bin/sandkeep sets it for
// the first modules, and programs that are started from here have no use for it.
if (process.env.NODE_COMPILE_CACHE?.endsWith("/.compile-cache")) delete process.env.NODE_COMPILE_CACHE;
else {
  const { compileCache } = await import("./installation/installation.ts");
  process.getBuiltinModule("node:module").enableCompileCache(compileCache);
}
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
    if (name === "-h" || name === "--help") print(usage());
    else if (["-v", "-V", "--version", "version"].includes(name)) print((await onHost()).version());
    else {
      const code = await runNamed(name, rest);
      // It has ended: nothing is left to wait for but a slow reader of its output.
      if (typeof code === "number") {
        await output?.flush();
        // Who reads only the exit code must not take lost output for all of it.
        process.exit(code === 0 ? Number(process.exitCode ?? 0) : code);
      }
    }
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof BrokenOutput) return Number(process.exitCode ?? 1);
    const { messageOf, SandkeepError } = await import("./core/model/errors.ts");
    // A sandbox may have chosen a name in it.
    process.stderr.write(`sandkeep: ${plainLines(messageOf(error))}\n`);
    // Our own errors are sentences; anything else is a bug, so print its stack.
    const ours = error instanceof SandkeepError || error instanceof CliError;
    if (!ours && error instanceof Error) process.stderr.write(`${plainLines(error.stack ?? "")}\n`);
    // Open handles must not keep the process alive: the caller waits for its end.
    const code = error instanceof CliError ? error.exitCode : 1;
    setTimeout(() => process.exit(code), 1000).unref();
    return code;
  }
}

function usage(): string {
  const listed = (table: Record<string, string>) =>
    Object.entries(table)
      .map(([name, summary]) => `  ${name.padEnd(10)}  ${summary}`)
      .join("\n");
  const summaries = (table: Record<string, Listed>) =>
    Object.fromEntries(Object.entries(table).map(([name, { summary }]) => [name, summary]));
  return `Usage: sandkeep <command>

Sandboxes:
${listed(summaries(sandboxCommands))}

Other commands:
${listed({ ...summaries(otherCommands), help: "show this; before a command, show that command's" })}

Options:
  -h, --help     show this; after a command, show that command's
  -v, --version  show the version

Example:
  sandkeep run -- echo hello`;
}

/** handles broken output: a command with nothing open exits at once, others when they print again */
function endOf(error: NodeJS.ErrnoException, name: string): void {
  const isGone = error.code === "EPIPE";
  if (!isGone) process.stderr.write(`sandkeep: Cannot write the output: ${error.message}\n`);
  process.exitCode = isGone ? brokenPipe : 1;
  if (!named(name)?.isClosing) process.exit();
}

function named(name: string): Listed | undefined {
  return Object.hasOwn(commands, name) ? commands[name] : undefined;
}

async function runNamed(name: string, args: string[], printed = print): Promise<unknown> {
  const command = named(name);
  if (!command) {
    const { otherCommand } = await import("./cli/verbs.ts");
    const hint = otherCommand(name, [...Object.keys(commands), "help"]);
    throw new CliError(`Cannot do "${name}": there is no such command`, hint);
  }
  // Both are loaded at the same time.
  const [execute, environment] = await Promise.all([
    command.load(),
    command.isLocal ? process.env : chosenDaemon(args),
  ]);
  return execute(args, surroundings(environment, printed));
}

/** what every command gets */
function surroundings(environment: NodeJS.ProcessEnv, printed: (line: string) => void): CommandContext {
  return {
    environment,
    dataDirs: dataDirs(),
    // Each stream is opened when it is first used.
    get input() {
      return process.stdin;
    },
    get output() {
      return output ? output.stdout : process.stdout;
    },
    get errors() {
      return output ? output.stderr : process.stderr;
    },
    signals: process,
    now: Date.now,
    print: printed,
    warn: (line) => void write("stderr", `sandkeep: ${plainLines(line)}\n`),
    async write(stream, data) {
      const isFull = !(output ? output.write(stream, data) : stream.write(data));
      // A reader that exits meanwhile makes the next write throw.
      if (isFull)
        await process
          .getBuiltinModule("node:events")
          .once(stream, "drain")
          .catch(() => undefined);
    },
  };
}

/** the environment, with the daemon that `sandkeep context` has chosen */
async function chosenDaemon(args: string[]): Promise<NodeJS.ProcessEnv> {
  const { isDaemonNamed } = await import("./cli/client/connection.ts");
  if (isDaemonNamed(args, process.env)) return process.env;
  return (await import("./cli/client/contexts.ts")).withContext(args, process.env);
}

async function completion(args: string[], context: CommandContext): Promise<undefined> {
  const { completionCommand } = await import("./cli/commands/completion.ts");
  const captured = async (name: string, words: string[]) => {
    const lines: string[] = [];
    if (named(name)) await runNamed(name, words, (line) => void lines.push(line));
    return lines;
  };
  await completionCommand(args, {
    commands: [...Object.keys(commands), "help"],
    usage: async (name) => (await captured(name, ["--help"])).join("\n"),
    sandboxes: () => captured("ls", ["-q"]).catch(() => []),
    print: context.print,
  });
}

/** directories that may hold the key; root's daemon may let other users read it */
function dataDirs(): string[] {
  const { SANDKEEP_DATA_DIR: dataDir } = process.env;
  const isRoot = process.getuid?.() === 0;
  return dataDir ? [dataDir] : [...new Set([isRoot, true].map((root) => defaultDataDir(process.env, root)))];
}

function print(line: string): void {
  write("stdout", `${line}\n`);
}

function write(name: "stdout" | "stderr", text: string): void {
  if (output) output.write(output[name], text);
  else process[name].write(text);
}
