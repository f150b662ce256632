/** The link that the daemon prints when it starts, which signs the person who reads it in to the dashboard once. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import type { Core } from "../core/core.ts";
import type { Caller } from "../core/model/sandbox.ts";

interface Started {
  core: Pick<Core, "access">;
  api: { signInLink(caller: Caller, lifetime: number): string | undefined };
  config: Pick<Config, "apiKey" | "dataDir">;
  /** the key that was made at this start, if one was */
  newKey: string | undefined;
  /** whether a person reads the daemon's output, and not a log that others may read later */
  isTerminal: boolean;
}

/** how long the link is valid, in ms: a person has to see it first */
const lifetime = 10 * 60_000;

/** undefined where the link would only be in a log, unless the log has the new key already */
export async function signInLinkFor({ core, api, config, newKey, isTerminal }: Started): Promise<string | undefined> {
  const key = newKey ?? (isTerminal ? knownKey(config) : undefined);
  const caller = key === undefined ? undefined : await core.access.authenticate(key).catch(() => undefined);
  return caller && api.signInLink(caller, lifetime);
}

/** the key that this daemon was given, or made at its first start */
function knownKey({ apiKey, dataDir }: Pick<Config, "apiKey" | "dataDir">): string | undefined {
  const file = join(dataDir, "api-key");
  return apiKey ?? (existsSync(file) ? readFileSync(file, "utf8").trim() : undefined);
}
