/** Where the daemon keeps its data by default. A file of its own: commands need it that must start fast. */

const { join } = process.getBuiltinModule("node:path");

/** where the daemon keeps its data unless a setting changes it */
export function defaultDataDir(environment: NodeJS.ProcessEnv, isRoot: boolean): string {
  if (isRoot) return "/var/lib/sandkeep";
  return join(environment.HOME ?? process.getBuiltinModule("node:os").homedir(), ".local/share/sandkeep");
}
