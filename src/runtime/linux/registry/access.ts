/** The registries for pulls and their logins, from the operator's settings, for the daemon and for commands. */

import { homedir } from "node:os";
import { join } from "node:path";
import type { RegistrySettings } from "./client.ts";
import { Credentials, type CredentialsOptions } from "./credentials.ts";
import type { PullerOptions } from "./puller.ts";

/** Settings by their names in the configuration, and the seal for passwords. */
export interface AccessOptions extends Omit<CredentialsOptions, "dockerFile"> {
  registryHttp: readonly string[];
  registryPrivate: readonly string[];
  registryMirrors: Readonly<Record<string, string>>;
  /** certificates to trust */
  roots: string[];
}

export interface RegistryAccess {
  settings: RegistrySettings;
  credentials: Credentials;
}

export function registryAccess(options: AccessOptions): RegistryAccess {
  const { dataDir, seal, warn, roots } = options;
  const { DOCKER_CONFIG: folder = join(homedir(), ".docker") } = process.env;
  const dockerFile = join(folder, "config.json");
  return {
    settings: {
      http: options.registryHttp,
      private: options.registryPrivate,
      mirrors: options.registryMirrors,
      roots,
    },
    credentials: new Credentials({ dataDir, seal, dockerFile, warn }),
  };
}

/** lists no registries where creates never pull; an operator's own pulls need no list */
export function pullerOptions(
  options: AccessOptions & { registries: readonly string[]; pullPolicy: string; pullTimeout: number },
): PullerOptions {
  const { registries, pullPolicy, pullTimeout: timeout } = options;
  return { registries: pullPolicy === "never" ? [] : registries, timeout, ...registryAccess(options) };
}
