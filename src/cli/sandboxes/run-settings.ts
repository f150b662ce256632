/** The settings of the sandbox of `sandkeep run`, from its options. */

import { CliError } from "../errors.ts";
import type { Volume } from "../files/run-folders.ts";
import type { NetworkAccess } from "../network-access.ts";
import { durationOf, memoryOf, numberOf, portOf, variablesOf } from "../units.ts";

const { basename, resolve } = process.getBuiltinModule("node:path");

/** What the options say about the sandbox. */
export interface RunSettings {
  /** as the API takes them */
  sandbox: {
    name?: string;
    env?: Record<string, string>;
    vcpus?: number;
    memory?: number;
    timeout?: number;
    networkPolicy?: NetworkAccess;
    mounts?: Record<string, { drive: string }>;
    ports?: number[];
  };
  /** folders to copy in */
  volumes: Volume[];
}

export async function runSettings(options: Options, environment: NodeJS.ProcessEnv): Promise<RunSettings> {
  const { name, env, cpus, memory, timeout, drive, port, volume = [] } = options;
  const volumes = volume.map(volumeOf);
  const networkPolicy = await accessOf(options, environment);
  const sandbox = {
    ...(name !== undefined && { name }),
    ...(env && { env: variablesOf(env, environment) }),
    ...(cpus !== undefined && { vcpus: numberOf("--cpus", cpus) }),
    ...(memory !== undefined && { memory: memoryOf("--memory", memory) }),
    ...(timeout !== undefined && { timeout: durationOf("--timeout", timeout) }),
    ...(networkPolicy !== undefined && { networkPolicy }),
    ...(drive && { mounts: Object.fromEntries(drive.map(mountOf)) }),
    ...(port && { ports: port.map(portOf) }),
  };
  return { sandbox, volumes };
}

interface Options {
  name?: string | undefined;
  env?: string[] | undefined;
  cpus?: string | undefined;
  memory?: string | undefined;
  timeout?: string | undefined;
  allow?: string[] | undefined;
  header?: string[] | undefined;
  volume?: string[] | undefined;
  drive?: string[] | undefined;
  port?: string[] | undefined;
}

/** undefined if nothing is said about the network */
async function accessOf({ allow, header }: Options, environment: NodeJS.ProcessEnv) {
  if (!allow && !header) return undefined;
  const { networkAccessOf } = await import("../network-access.ts");
  return networkAccessOf({ allow, header }, environment);
}

function mountOf(text: string): [path: string, mount: { drive: string }] {
  const [, drive = "", path = ""] = /^([^:/]+):(\/.+)$/s.exec(text) ?? [];
  if (drive !== "") return [path, { drive }];
  throw new CliError(`Cannot use --drive "${text}": it must be <name>:<path>, with a path that begins with "/"`);
}

/** a folder of this host, and where it is copied to */
function volumeOf(text: string): Volume {
  const [, local = text, remote] = /^(.+?):([^:]+)$/s.exec(text) ?? [];
  const whole = resolve(local);
  if (!process.getBuiltinModule("node:fs").statSync(whole, { throwIfNoEntry: false })?.isDirectory())
    throw new CliError(`Cannot use -v "${text}": "${local}" is not a directory`);
  return { local: whole, remote: remote ?? (basename(whole) || "root") };
}
