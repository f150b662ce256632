/** The daemon's address and key: from the command line, the environment, or the daemon's own file. */

import { CliError } from "../errors.ts";

const { readFileSync } = process.getBuiltinModule("node:fs");
const { join } = process.getBuiltinModule("node:path");

export interface KeyPlaces {
  environment: NodeJS.ProcessEnv;
  /** data directories of this user's daemon, most likely first */
  dataDirs: string[];
}

interface PlaceOptions {
  url?: string | undefined;
  "data-dir"?: string | undefined;
}

/** variables that say which daemon is meant */
const explicit = ["SANDKEEP_URL", "SANDKEEP_PUBLIC_URL", "SANDKEEP_PORT", "SANDKEEP_API_KEY", "SANDKEEP_DATA_DIR"];

/** whether an option or a variable says which daemon is meant, so that the chosen context does not count */
export function isDaemonNamed(args: string[], environment: NodeJS.ProcessEnv): boolean {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (own.some((word) => /^--(url|data-dir)(=|$)/.test(word))) return true;
  return !environment.SANDKEEP_CONTEXT && explicit.some((name) => environment[name]);
}

export function daemonUrl({ url: flag, "data-dir": dataDir }: PlaceOptions, places: KeyPlaces): string {
  const { environment } = places;
  const { SANDKEEP_URL, SANDKEEP_PUBLIC_URL, SANDKEEP_PORT, SANDKEEP_TLS_CERT, SANDKEEP_DOMAIN } = environment;
  // A certificate is for names.
  const here = SANDKEEP_TLS_CERT ? `https://${SANDKEEP_DOMAIN || "localhost"}` : "http://127.0.0.1";
  const recorded = SANDKEEP_PORT ? undefined : recordedUrl(dataDir, places);
  const text = flag || SANDKEEP_URL || SANDKEEP_PUBLIC_URL || recorded || `${here}:${SANDKEEP_PORT || "7700"}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.username || url?.password) {
    const hint = "set SANDKEEP_API_KEY to the key";
    throw new CliError("Cannot use the daemon's address: it has a user name or a password in it", hint);
  }
  if (url && ["http:", "https:"].includes(url.protocol)) return url.href.replace(/\/$/, "");
  throw new CliError(`Cannot use "${text}" as the daemon's address: it must be a URL that begins with http or https`);
}

/** what the daemon of the directory with the key has written at its last start */
function recordedUrl(dataDir: string | undefined, { environment, dataDirs }: KeyPlaces): string | undefined {
  const all = dataDir === undefined ? dataDirs : [dataDir];
  const ofKey = environment.SANDKEEP_API_KEY ? [] : all.filter((each) => contentOf(join(each, "api-key")) !== "");
  const searched = ofKey.length > 0 ? ofKey.slice(0, 1) : all;
  return searched.map(addressIn).find((address) => address !== "");
}

/** where the daemon of a data directory listened when it started last; empty if it has not written that */
export function addressIn(dataDir: string): string {
  return contentOf(join(dataDir, "address"));
}

export function apiKey(dataDir: string | undefined, { environment, dataDirs }: KeyPlaces): string {
  if (environment.SANDKEEP_API_KEY) return environment.SANDKEEP_API_KEY;
  const files = (dataDir === undefined ? dataDirs : [dataDir]).map((directory) => join(directory, "api-key"));
  const key = files.map(contentOf).find((content) => content !== "");
  if (key !== undefined) return key;
  throw new CliError(
    `Cannot find an API key: SANDKEEP_API_KEY is not set, and there is none to read in ${files.map((file) => `"${file}"`).join(" or ")}`,
    "set SANDKEEP_API_KEY to the key that the daemon printed at its first start; as root, the file that it wrote then is enough",
  );
}

/** empty if it cannot be read */
function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
