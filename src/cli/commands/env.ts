/** `sandkeep env <service>`: prints the lines that point a service's own SDK and CLI at the daemon. */

import { didYouMean } from "../../base/similar.ts";
import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { readArgs } from "../command.ts";
import { misuse } from "../errors.ts";
import { shellWord } from "../print/output.ts";
import { plainJson } from "../print/plain.ts";

export const envUsage = `Usage: eval "$(sandkeep env <service>)"

Prints lines for a shell that point a service's unmodified SDK and CLI at your daemon. If the daemon refuses the key, or
another server answers, it prints an error message and no settings, and eval fails.

Services:
  vercel       @vercel/sandbox, sandbox, and vercel-sandbox of Python
  e2b          e2b, @e2b/cli, and e2b of Python
  veryfront    veryfront

Options:
  --json                   print the variables as JSON, with the values that they get
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --team <id>              whose sandboxes, for vercel (team_default)
  --project <id or name>   of which project, for vercel (prj_default)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  eval "$(sandkeep env vercel)" && node program.mjs
`;

/** What the command reads and writes. */
export interface EnvContext extends KeyPlaces {
  /** the file: URL of the preload */
  preload: string;
  /** the folder whose sitecustomize module is Python's preload */
  pythonPath: string;
  /** the key as a token in the shape that Vercel's clients expect */
  token(key: string, scope: { teamId: string; projectId: string }): string;
  print(line: string): void;
  warn(line: string): void;
}

/** A shell ignores the exit code of the command inside eval "$(…)": this line makes eval itself fail. */
const failed = "false # sandkeep printed no settings: its error message says why";

export async function envCommand(args: string[], context: EnvContext): Promise<void> {
  try {
    await printSettings(args, context);
  } catch (error) {
    if (!args.includes("--json")) context.print(failed);
    throw error;
  }
}

async function printSettings(args: string[], context: EnvContext): Promise<void> {
  const { values, positionals } = await readArgs(args, envUsage, {
    json: { type: "boolean" },
    url: { type: "string" },
    team: { type: "string" },
    project: { type: "string" },
    "data-dir": { type: "string" },
  });
  if (values.help) return context.print(envUsage.trimEnd());
  const [service = "", ...rest] = positionals;
  const settingsOf = Object.hasOwn(services, service) ? services[service] : undefined;
  if (!settingsOf || rest.length > 0) {
    throw misuse(noSuchService(positionals), envUsage);
  }
  const url = daemonUrl(values, context);
  const key = apiKey(values["data-dir"], context);
  const scope = { teamId: values.team ?? "team_default", projectId: values.project ?? "prj_default" };
  const health = await new Client({ url, key }).requireUsable(values, context.warn);
  // The daemon's own domain may differ from the environment's.
  const domain = health?.domain ?? (context.environment.SANDKEEP_DOMAIN || undefined);
  const settings = settingsOf({ url, key, scope, context, domain });
  if (values.json) return context.print(plainJson(valuesOf(settings, context.environment)));
  for (const setting of settings) context.print(lineOf(setting));
}

function noSuchService([service, ...rest]: string[]): string {
  const known = Object.keys(services);
  if (service === undefined || rest.length > 0)
    return `Cannot print settings: name one service, ${known.slice(0, -1).join(", ")} or ${known.at(-1)}`;
  const meant = didYouMean(service, known) || `There are ${known.slice(0, -1).join(", ")} and ${known.at(-1)}`;
  return `Cannot print settings for "${service}": there is no such service. ${meant}`;
}

interface Connection {
  /** without a closing slash */
  url: string;
  key: string;
  scope: { teamId: string; projectId: string };
  /** the domain of the sandboxes' ports, if known */
  domain: string | undefined;
  context: EnvContext;
}

/** A variable, and its value or a word that is added to its list of words. */
type Setting = { name: string; value: string } | { name: string; word: string; separator: " " | ":" };

const services: Record<string, (connection: Connection) => Setting[]> = {
  vercel({ url, key, scope, domain, context }) {
    const token = context.token(key, scope);
    return [
      { name: "SANDKEEP_URL", value: url },
      // For our own commands: they use the same address.
      { name: "SANDKEEP_API_KEY", value: key },
      ...(domain !== undefined ? [{ name: "SANDKEEP_DOMAIN", value: domain }] : []),
      { name: "NODE_OPTIONS", word: `--import=${context.preload}`, separator: " " },
      { name: "PYTHONPATH", word: context.pythonPath, separator: ":" },
      { name: "VERCEL_OIDC_TOKEN", value: token },
      // The CLI checks this one first, and would otherwise find a token of the real Vercel.
      { name: "VERCEL_AUTH_TOKEN", value: token },
      { name: "VERCEL_TELEMETRY_DISABLED", value: "1" },
      { name: "SANDBOX_SKIP_VERSION_CHECK", value: "1" },
    ];
  },
  e2b({ url, key, domain, context }) {
    return [
      { name: "E2B_API_URL", value: url },
      { name: "E2B_SANDBOX_URL", value: url },
      { name: "E2B_VOLUME_API_URL", value: url },
      // Some versions accept only hexadecimal digits in a key.
      { name: "E2B_API_KEY", value: `e2b_${Buffer.from(key).toString("hex")}` },
      // The page that its command line opens for a login.
      { name: "E2B_DOCS_BASE", value: `${url}/docs` },
      // Version 1 of the SDK has a fixed address, and needs the preload.
      { name: "SANDKEEP_URL", value: url },
      // For our own commands: they use the same address.
      { name: "SANDKEEP_API_KEY", value: key },
      ...(domain !== undefined ? [{ name: "SANDKEEP_DOMAIN", value: domain }] : []),
      { name: "NODE_OPTIONS", word: `--import=${context.preload}`, separator: " " },
    ];
  },
  veryfront: ({ url, key }) => [
    { name: "VERYFRONT_API_URL", value: url },
    { name: "VERYFRONT_API_TOKEN", value: key },
  ],
};

/**
 * The line for a shell. A word is added unless the list has it: evaluating the lines twice adds it once. Options come
 * last; of modules with the same name Python loads the first, and ours then loads the one that it hides.
 */
function lineOf(setting: Setting): string {
  const { name } = setting;
  if ("value" in setting) return `export ${name}=${shellWord(setting.value)}`;
  const { separator } = setting;
  const word = shellWord(setting.word);
  const value = separator === " " ? `"\${${name}:+$${name} }"${word}` : `${word}"\${${name}:+:$${name}}"`;
  const quoted = `"${separator}"`;
  return `case ${quoted}"\${${name}-}"${quoted} in *${quoted}${word}${quoted}*) ;; *) export ${name}=${value} ;; esac`;
}

/** what each variable is after the lines */
function valuesOf(settings: Setting[], environment: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    settings.map((setting) => {
      const { name } = setting;
      if ("value" in setting) return [name, setting.value];
      const { word, separator } = setting;
      const words = (environment[name] || undefined)?.split(separator) ?? [];
      const all = words.includes(word) ? words : separator === " " ? [...words, word] : [word, ...words];
      return [name, all.join(separator)];
    }),
  );
}
