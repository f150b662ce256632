/** Where images are pulled from, and as whom: from the operator's settings, for the daemon and for commands beside it. */

import { homedir } from "node:os";
import { join } from "node:path";
import type { RegistrySettings } from "./client.ts";
import { Credentials, type CredentialsOptions } from "./credentials.ts";
import type { PullerOptions } from "./puller.ts";

/** Settings by the names that they have in the configuration, and what seals passwords. */
export interface AccessOptions extends Omit<CredentialsOptions, "dockerFile"> {
  registryHttp: readonly string[];
  registryPrivate: readonly string[];
  registryMirrors: Readonly<Record<string, string>>;
  /** certificates to believe */
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

/** undefined where creates pull nothing */
export function pullerOptions(
  options: AccessOptions & { registries: readonly string[]; pullPolicy: string; pullTimeout: number },
): PullerOptions | undefined {
  const { registries, pullPolicy, pullTimeout: timeout } = options;
  if (registries.length === 0 || pullPolicy === "never") return undefined;
  return { registries, timeout, ...registryAccess(options) };
}
