/** What bin/sandkeep runs: reads which command is wanted and starts it. Each command's code is loaded only when needed. */

import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, isAbsolute, join } from "node:path";
import { pathToFileURL } from "node:url";
import { CliError } from "./cli/errors.ts";
import { messageOf, SandkeepError } from "./core/errors.ts";
import { redirects, root } from "./installation.ts";

const usage = `Usage: sandkeep <command>

Commands:
  serve    run the daemon
  recover  list what the database does not know of the data directory, and put it on record
  image    import, build, list and delete the images that sandboxes boot from
  egress   show what a sandbox wanted of the world and what became of it, and which policy would do
  key      make, list and delete keys, with limits if you like
  env      print the settings that point a service's own SDK and CLI at the daemon
  mcp      serve the daemon's MCP tools over standard input and output
  doctor   say what isolation this host can give, and what is missing

Options:
  -h, --help       show this; after a command, show that command's
  -v, --version    show the version
`;

/** each may return an exit code; whatever else is 0 */
const commands: Record<string, (args: string[]) => Promise<unknown>> = {
  serve,
  recover,
  image,
  egress,
  key,
  env,
  mcp,
  doctor,
};

const isRoot = process.getuid?.() === 0;

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  const [name = "--help", ...rest] = args;
  try {
    if (name === "-h" || name === "--help") process.stdout.write(usage);
    else if (name === "-v" || name === "--version") process.stdout.write(`${version()}\n`);
    else {
      const code = await commandNamed(name)(rest);
      if (typeof code === "number") return code;
    }
    return 0;
  } catch (error) {
    process.stderr.write(`sandkeep: ${messageOf(error)}\n`);
    // Our own errors are sentences; anything else is a bug, whose place is worth knowing.
    const ours = error instanceof SandkeepError || error instanceof CliError;
    if (!ours && error instanceof Error) process.stderr.write(`${error.stack}\n`);
    // Whatever it left open must not keep the program: whoever started it waits for its end.
    setTimeout(() => process.exit(1), 1000).unref();
    return 1;
  }
}

function commandNamed(name: string): (args: string[]) => Promise<unknown> {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!command) throw new SandkeepError("invalid", `Cannot do "${name}": there is no such command\n\n${usage}`);
  return command;
}

async function serve(args: string[]): Promise<void> {
  const daemon = await import("./daemon.ts");
  await daemon.serve(args);
}

async function recover(args: string[]): Promise<void> {
  const { recoverCommand } = await import("./admin/recover.ts");
  const { openForRecovery } = await import("./daemon.ts");
  await recoverCommand(args, { open: openForRecovery, freshIdentity: () => randomUUID(), print });
}

async function image(args: string[]): Promise<void> {
  const { imageCommand } = await import("./admin/image.ts");
  const { openWorkshop } = await import("./admin/workshop.ts");
  const { nativeProgram } = await import("./native-program.ts");
  const home = process.env.SANDKEEP_DATA_DIR ?? "/var/lib/sandkeep";
  await imageCommand(args, {
    open: (dataDir = home) => openWorkshop({ dataDir, guest: () => nativeProgram({ root, dataDir, say: warn }) }),
    input: process.stdin,
    print,
    progress: (line) => void process.stderr.write(`${line}\n`),
  });
}

async function env(args: string[]): Promise<void> {
  const { envCommand } = await import("./cli/commands/env.ts");
  const { makeOidcToken } = await import("./core/token.ts");
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
  await egressCommand(args, { environment: process.env, dataDirs: await dataDirs(), print, warn });
}

async function key(args: string[]): Promise<void> {
  const { keyCommand } = await import("./cli/commands/key.ts");
  await keyCommand(args, { environment: process.env, dataDirs: await dataDirs(), now: Date.now, print, warn });
}

async function mcp(args: string[]): Promise<void> {
  const { mcpCommand } = await import("./cli/commands/mcp.ts");
  await mcpCommand(args, {
    environment: process.env,
    dataDirs: await dataDirs(),
    version: version(),
    program: installed() ?? { command: process.execPath, args: [import.meta.filename] },
    print,
    warn,
  });
}

/** the `sandkeep` of PATH, where that is this very program */
function installed(): { command: string; args: string[] } | undefined {
  const places = (process.env.PATH ?? "").split(delimiter).filter((place) => isAbsolute(place));
  const command = places
    .map((place) => join(place, "sandkeep"))
    .find((path) => realPath(path) === import.meta.filename);
  return command === undefined ? undefined : { command, args: [] };
}

/** undefined where there is nothing */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

async function doctor(args: string[]): Promise<number> {
  const { doctorCommand } = await import("./cli/commands/doctor.ts");
  const { readHost } = await import("./cli/host.ts");
  const { defaultDataDir, readConfig } = await import("./config.ts");
  const { heldIn, usualReserve } = await import("./runtime/linux/disk-room.ts");
  const { isReadOnly } = await import("./runtime/linux/storage.ts");
  const { findNativeProgram } = await import("./native-program.ts");
  const { hostView } = await import("./runtime/linux/image/host-view.ts");
  const { cgroupControllers, kernelHas, missing, onPath } = await import("../scripts/host-needs.mjs");
  const home = process.env.SANDKEEP_DATA_DIR || defaultDataDir(process.env, isRoot);
  const packages = missing(["run"]).map((need) => ({ name: need.package, why: need.why }));
  return await doctorCommand(args, {
    facts: async (dataDir = home) => {
      const compiled = findNativeProgram({ root, dataDir }) !== undefined;
      const view = await hostView().catch(() => undefined);
      const { diskReserve } = readConfig([], process.env);
      const reserve = (place: string) => ({ reserve: diskReserve ?? usualReserve(place), held: heldIn(place) });
      const known = { kernelHas, cgroupControllers, onPath, packages, view, reserve, isReadOnly };
      return readHost({ dataDir, compiled, ...known });
    },
    print,
  });
}

/** where the key may be; a user of a daemon that root runs may be allowed to read it */
async function dataDirs(): Promise<string[]> {
  const { defaultDataDir } = await import("./config.ts");
  const { SANDKEEP_DATA_DIR: dataDir } = process.env;
  return dataDir ? [dataDir] : [...new Set([isRoot, true].map((root) => defaultDataDir(process.env, root)))];
}

function warn(line: string): void {
  process.stderr.write(`sandkeep: ${line}\n`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function version(): string {
  const { version } = createRequire(import.meta.url)(join(root, "package.json")) as { version: string };
  return version;
}
