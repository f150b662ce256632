/**
 * Which npm packages a purpose needs, by the lockfile and the list that npm leaves in node_modules. Serving needs those
 * that src/ imports; tests, checks and benchmarks need all of them.
 */

/**
 * @typedef {{ version?: string, integrity?: string, dev?: boolean, optional?: boolean }} Package
 * @typedef {Record<string, Package>} Packages by their path, as in a lockfile
 * @typedef {{ dev: boolean, required: string[] }} Wanted `required`: optional packages that must be installed anyway
 */

/**
 * Whether the installed packages match the lockfile, as far as they are needed.
 *
 * @param {Packages} locked
 * @param {Packages} installed
 * @param {Wanted} wanted
 */
export function areCurrent(locked, installed, { dev, required }) {
  return Object.entries(locked).every(([path, entry]) => {
    if (path === "" || (entry.dev && !dev)) return true;
    const found = installed[path];
    // Optional packages exist once for each kind of host.
    if (found === undefined) return Boolean(entry.optional) && !required.includes(path);
    return found.version === entry.version && found.integrity === entry.integrity;
  });
}

/**
 * The arguments of npm that install them. Development packages stay if they are installed.
 *
 * @param {Packages} installed
 * @param {Wanted} wanted
 */
export function installArguments(installed, { dev }) {
  const keepsDev = dev || Object.values(installed).some((entry) => entry.dev);
  // No warning that the host's Node is older than the one being installed. Always a flag for development
  // packages, because NODE_ENV=production would decide otherwise.
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--engine-strict=false"];
  return ["ci", ...quiet, keepsDev ? "--include=dev" : "--omit=dev"];
}
