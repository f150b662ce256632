/** Where the daemon keeps its data by default. A file of its own: commands need it that must start fast. */

import { homedir } from "node:os";
import { join } from "node:path";

/** where the daemon keeps its data unless a setting changes it */
export function defaultDataDir(environment: NodeJS.ProcessEnv, isRoot: boolean): string {
  if (isRoot) return "/var/lib/sandkeep";
  return join(environment.HOME ?? homedir(), ".local/share/sandkeep");
}
