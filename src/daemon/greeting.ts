/** The text that the daemon prints for the person who starts it: how to use it, or how to start it correctly. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { shellWord } from "../cli/print/output.ts";
import { type Config, readConfig, settings } from "../config/config.ts";
import { ownCommand } from "../installation/installation.ts";

/** Of a daemon that has started. */
interface Started {
  url: string;
  /** the key that was made at this start, if one was */
  newKey?: string;
  /** an address that signs a browser in once */
  signInLink?: string;
}

/** Programs that it can be used with unchanged, and their name for `sandkeep env`. */
interface Clients {
  service: string;
  names: string;
}

/** printed after a successful start */
export function greeting(
  { url, newKey, signInLink }: Started,
  config: Config,
  environment: NodeJS.ProcessEnv,
  clients: Clients,
): string {
  const keyFile = join(config.dataDir, "api-key");
  const hasFile = existsSync(keyFile);
  const keyPlace = hasFile ? `in ${keyFile}` : "what SANDKEEP_API_KEY is, or was at an earlier start";
  const env = [ownCommand(environment), "env", clients.service, "--url", url, "--data-dir", config.dataDir];
  const setKey = `export SANDKEEP_API_KEY=${newKey ?? "…"}`;
  const lines = [
    `sandkeep ready ${url}`,
    "",
    ...(signInLink === undefined ? [] : [`Dashboard, with a link that signs you in once: ${signInLink}`, ""]),
    newKey !== undefined ? `Your API key: ${newKey} (also in ${keyFile})` : `Your API key is ${keyPlace}`,
    "",
    `To use it from another terminal with ${clients.names}, unchanged:`,
    "",
    `    eval "$(${env.map(shellWord).join(" ")})"`,
    "",
    hasFile
      ? `Only root can read the key there: as another user, first run ${setKey}`
      : `That takes the key from SANDKEEP_API_KEY: first run ${setKey}`,
    "",
    ...exposure(config),
  ];
  return `${lines.join("\n")}\n`;
}

/** printed when other hosts can reach the daemon and it knows of nothing that encrypts their requests */
function exposure({ host, publicUrl = "", tlsCert }: Config): string[] {
  const isLocal = host === "localhost" || host === "::1" || host.startsWith("127.");
  if (isLocal || tlsCert !== undefined || publicUrl.startsWith("https:")) return [];
  const how =
    "set SANDKEEP_TLS_CERT and SANDKEEP_TLS_KEY, or put a proxy with TLS before it and give its address as SANDKEEP_PUBLIC_URL";
  return [`It listens on ${host} without encryption, so that keys can be read on the way: ${how}`, ""];
}

/** a command line of this Sandkeep for the directories of these settings, to be copied into a shell */
export function commandLine(verb: string, { dataDir, runDir }: Config, environment: NodeJS.ProcessEnv): string {
  const run = runDir === readConfig([], {}).runDir ? [] : ["--run-dir", runDir];
  return [ownCommand(environment), verb, "--data-dir", dataDir, ...run].map(shellWord).join(" ");
}

const sudoPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** the command line that runs a command of this Sandkeep as root, with the settings of this environment */
export function commandAsRoot(words: string[], environment: NodeJS.ProcessEnv): string {
  // sudo passes only the variables on that its command line lists.
  const passed = Object.values(settings).flatMap(({ env }) => (environment[env] ? [env] : []));
  const sudo = ["sudo", ...(passed.length > 0 ? [`--preserve-env=${passed.join(",")}`] : [])];
  // Under sudo another PATH counts than this user's.
  return [...sudo, ownCommand({ PATH: sudoPath }), ...words].map(shellWord).join(" ");
}
