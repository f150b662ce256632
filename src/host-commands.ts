/**
 * Commands that put parts of the daemon together: those that work on this host's data directory, and those that tell
 * other programs about it. Each loads its parts when it runs.
 */

import { randomUUID } from "node:crypto";
import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { CommandContext } from "./cli/command.ts";
import { CliError } from "./cli/errors.ts";
import { launcher, mainModule, redirects, root } from "./installation/installation.ts";

export async function serve(args: string[]): Promise<undefined> {
  const daemon = await import("./daemon/daemon.ts");
  await daemon.serve(args);
}

export async function recover(args: string[], { print }: CommandContext): Promise<undefined> {
  const { recoverCommand } = await import("./cli/offline/recover.ts");
  const { openForRecovery } = await import("./daemon/daemon.ts");
  await recoverCommand(args, { open: openForRecovery, freshIdentity: () => randomUUID(), print });
}

export async function image(args: string[], context: CommandContext): Promise<undefined> {
  const { errors, input, print, warn } = context;
  const { imageBuildCommand, needsDaemon } = await import("./cli/commands/image-build.ts");
  if (needsDaemon(args)) {
    const progress = (text: string) => void context.write(errors, text);
    await imageBuildCommand(args, { ...context, progress });
    return;
  }
  const { asksDaemon, imageShowCommand } = await import("./cli/commands/image-show.ts");
  const { isOtherDaemon } = await import("./cli/offline/other-daemon.ts");
  const here = resolve(process.env.SANDKEEP_DATA_DIR || "/var/lib/sandkeep");
  if (asksDaemon(args, () => isOtherDaemon(context.environment, here))) {
    await imageShowCommand(args, context);
    return;
  }
  const { imageCommand } = await import("./cli/offline/image.ts");
  const { openOfflineStore } = await import("./cli/offline/offline-store.ts");
  const { otherDaemonNote } = await import("./cli/offline/other-daemon.ts");
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
  const { paperOf } = await import("./cli/print/table.ts");
  const config = readConfig([], process.env);
  await imageCommand(args, {
    async open({ dataDir: named, runDir = run || "/run/sandkeep", create }) {
      const dataDir = named ?? (home || "/var/lib/sandkeep");
      const [data, runRoot] = [dataDirectory(resolve(dataDir)), runDirectory(resolve(runDir))];
      const note = named === undefined ? otherDaemonNote(context.environment, data.path) : undefined;
      if (note !== undefined) warn(note);
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
    input,
    paper: paperOf(context.output, process.env),
    print,
    progress: (line) => void context.write(errors, `${line}\n`),
    ...(errors.isTTY && {
      redraw: (line: string) => void context.write(errors, redrawn(line, errors.columns)),
    }),
  });
}

export async function registry(args: string[], { input, errors, print, warn }: CommandContext): Promise<undefined> {
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
    ...(input.isTTY && { prompt: (question: string) => hiddenLine(question, input, errors) }),
    input,
    print,
  });
}

export async function env(args: string[], context: CommandContext): Promise<undefined> {
  const { envCommand } = await import("./cli/commands/env.ts");
  const { makeOidcToken } = await import("./api/default-dialect.ts");
  await envCommand(args, {
    ...context,
    preload: pathToFileURL(join(redirects, "preload.mjs")).href,
    pythonPath: join(redirects, "python"),
    token: makeOidcToken,
  });
}

export async function mcp(args: string[], context: CommandContext): Promise<number | undefined> {
  const { mcpCommand } = await import("./cli/commands/mcp.ts");
  return mcpCommand(args, {
    ...context,
    version: version(),
    program: installed() ?? { command: process.execPath, args: [mainModule] },
  });
}

export async function upgrade(args: string[], context: CommandContext): Promise<undefined> {
  const { upgradeCommand } = await import("./cli/commands/upgrade.ts");
  await upgradeCommand(args, context);
}

export async function doctor(args: string[], { print }: CommandContext): Promise<number> {
  const { doctorCommand } = await import("./cli/commands/doctor.ts");
  const { readConfig } = await import("./config/config.ts");
  const { defaultDataDir } = await import("./config/default-data-dir.ts");
  const { hostFacts } = await import("./daemon/host-facts.ts");
  const home = process.env.SANDKEEP_DATA_DIR || defaultDataDir(process.env, process.getuid?.() === 0);
  const facts = async (dataDir = home) => hostFacts(readConfig([], process.env), dataDir);
  return await doctorCommand(args, { facts, print });
}

export function version(): string {
  const { version } = createRequire(import.meta.url)(join(root, "package.json")) as { version: string };
  return version;
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

function noDataDirectory(path: string): Error {
  const where = "--data-dir or SANDKEEP_DATA_DIR says where it is";
  return new CliError(`Cannot work on the images of "${path}": there is no such directory`, where);
}
