/**
 * Contexts: daemons by name, each with its address and a key, in a file that only its user may read. The
 * chosen one counts where neither an option nor the environment says which daemon is meant.
 */

import { codeOf } from "../../base/error-code.ts";
import { didYouMean } from "../../base/similar.ts";
import { CliError } from "../errors.ts";
import { isDaemonNamed } from "./connection.ts";

const { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } = process.getBuiltinModule("node:fs");
const { dirname, join } = process.getBuiltinModule("node:path");

export interface Contexts {
  /** the chosen one; null for the daemon of this host */
  current: string | null;
  contexts: Record<string, { url: string; key: string }>;
}

export function contextFile({ XDG_CONFIG_HOME, HOME }: NodeJS.ProcessEnv): string {
  return join(
    XDG_CONFIG_HOME || join(HOME || process.getBuiltinModule("node:os").homedir(), ".config"),
    "sandkeep",
    "contexts.json",
  );
}

export function readContexts(environment: NodeJS.ProcessEnv): Contexts {
  const path = contextFile(environment);
  try {
    // This program wrote the file.
    const { current = null, contexts = {} } = JSON.parse(readFileSync(path, "utf8")) as Partial<Contexts>;
    return { current, contexts };
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return { current: null, contexts: {} };
    throw new CliError(`Cannot read "${path}": ${(cause as Error).message}`, "correct the file, or remove it");
  }
}

export function writeContexts(contexts: Contexts, environment: NodeJS.ProcessEnv): void {
  const path = contextFile(environment);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(contexts, null, 2)}\n`, { mode: 0o600 });
  chmodSync(draft, 0o600);
  renameSync(draft, path);
}

/**
 * The environment with the address and the key of the chosen context. SANDKEEP_CONTEXT chooses one for a single command.
 * A key is sent only to the address that it belongs to, so an option that names another place leaves the context out.
 */
export function withContext(args: string[], environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (isDaemonNamed(args, environment)) return environment;
  const { current, contexts } = readContexts(environment);
  const name = environment.SANDKEEP_CONTEXT || current;
  if (!name) return environment;
  const { url, key } = contextNamed(name, contexts);
  return { ...environment, SANDKEEP_URL: url, SANDKEEP_API_KEY: key };
}

export function contextNamed(name: string, contexts: Contexts["contexts"]): { url: string; key: string } {
  const found = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (found) return found;
  const meant = didYouMean(name, Object.keys(contexts));
  const hint = meant === "" ? "sandkeep context ls lists them" : meant;
  throw new CliError(`Cannot use the context "${name}": there is no such context`, hint);
}
