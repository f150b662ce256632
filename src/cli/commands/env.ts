/** `sandkeep env <service>`: prints the lines that point a service's own SDK and CLI at the daemon. */

import { didYouMean } from "../../base/similar.ts";
import { Client } from "../client/client.ts";
import { apiKey, daemonUrl, type KeyPlaces } from "../client/connection.ts";
import { readArgs } from "../command.ts";
import { misuse } from "../errors.ts";
import { shellWord } from "../print/output.ts";

export const envUsage = `Usage: eval "$(sandkeep env <service>)"

Prints lines for a shell that point a service's unmodified SDK and CLI at your daemon. If the daemon refuses the key, or
another server answers, it prints an error message and no settings, and eval fails.

Services:
  vercel       @vercel/sandbox, sandbox, and vercel-sandbox of Python
  e2b          e2b, @e2b/cli, and e2b of Python
  veryfront    veryfront

Options:
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --team <id>              whose sandboxes, for vercel (team_default)
  --project <id>           of which project, for vercel (prj_default)
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
    context.print(failed);
    throw error;
  }
}

async function printSettings(args: string[], context: EnvContext): Promise<void> {
  const { values, positionals } = await readArgs(args, envUsage, {
    url: { type: "string" },
    team: { type: "string" },
    project: { type: "string" },
    "data-dir": { type: "string" },
  });
  if (values.help) return context.print(envUsage.trimEnd());
  const [service = "", ...rest] = positionals;
  const lines = Object.hasOwn(services, service) ? services[service] : undefined;
  if (!lines || rest.length > 0) {
    throw misuse(noSuchService(positionals), envUsage);
  }
  const url = daemonUrl(values, context);
  const key = apiKey(values["data-dir"], context);
  const scope = { teamId: values.team ?? "team_default", projectId: values.project ?? "prj_default" };
  const health = await new Client({ url, key }).requireUsable(values, context.warn);
  // The daemon's own domain may differ from the environment's.
  const domain = health?.domain ?? (context.environment.SANDKEEP_DOMAIN || undefined);
  for (const line of lines({ url, key, scope, context, domain })) context.print(line);
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

const services: Record<string, (connection: Connection) => string[]> = {
  vercel({ url, key, scope, domain, context }) {
    const token = context.token(key, scope);
    const [option, pythonPath] = [shellWord(`--import=${context.preload}`), shellWord(context.pythonPath)];
    return [
      exported("SANDKEEP_URL", url),
      // For our own commands: they use the same address.
      exported("SANDKEEP_API_KEY", key),
      ...(domain !== undefined ? [exported("SANDKEEP_DOMAIN", domain)] : []),
      // Keep existing options.
      unlessIn(" ", "NODE_OPTIONS", option, `"\${NODE_OPTIONS:+$NODE_OPTIONS }"${option}`),
      // Ours comes first, and loads the sitecustomize module that it hides.
      unlessIn(":", "PYTHONPATH", pythonPath, `${pythonPath}"\${PYTHONPATH:+:$PYTHONPATH}"`),
      exported("VERCEL_OIDC_TOKEN", token),
      // The CLI checks this one first, and would otherwise find a token of the real Vercel.
      exported("VERCEL_AUTH_TOKEN", token),
      exported("VERCEL_TELEMETRY_DISABLED", "1"),
      exported("SANDBOX_SKIP_VERSION_CHECK", "1"),
    ];
  },
  e2b({ url, key, domain, context }) {
    const option = shellWord(`--import=${context.preload}`);
    return [
      exported("E2B_API_URL", url),
      exported("E2B_SANDBOX_URL", url),
      exported("E2B_VOLUME_API_URL", url),
      // Some versions accept only hexadecimal digits in a key.
      exported("E2B_API_KEY", `e2b_${Buffer.from(key).toString("hex")}`),
      // The page that its command line opens for a login.
      exported("E2B_DOCS_BASE", `${url}/docs`),
      // Version 1 of the SDK has a fixed address, and needs the preload.
      exported("SANDKEEP_URL", url),
      // For our own commands: they use the same address.
      exported("SANDKEEP_API_KEY", key),
      ...(domain !== undefined ? [exported("SANDKEEP_DOMAIN", domain)] : []),
      unlessIn(" ", "NODE_OPTIONS", option, `"\${NODE_OPTIONS:+$NODE_OPTIONS }"${option}`),
    ];
  },
  veryfront: ({ url, key }) => [exported("VERYFRONT_API_URL", url), exported("VERYFRONT_API_TOKEN", key)],
};

/** adds a word to a list, unless it is there: evaluating the lines twice adds it once */
function unlessIn(separator: " " | ":", name: string, word: string, value: string): string {
  const quoted = `"${separator}"`;
  return `case ${quoted}"\${${name}-}"${quoted} in *${quoted}${word}${quoted}*) ;; *) export ${name}=${value} ;; esac`;
}

function exported(name: string, value: string): string {
  return `export ${name}=${shellWord(value)}`;
}
