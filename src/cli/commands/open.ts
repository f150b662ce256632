/** `sandkeep open`: opens the dashboard in a browser that is signed in, or prints the link that does so once. */

import { Client } from "../client/client.ts";
import { apiKey, daemonUrl } from "../client/connection.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { plainJson } from "../print/plain.ts";

const openUsage = `Usage: sandkeep open [options]

Opens the dashboard in your browser, signed in. Without a desktop, and where standard output is no terminal, it prints a link
that signs a browser in once and is valid for a minute. BROWSER names another program than xdg-open.

Options:
  --print                  only print the link
  --json                   print the link as JSON
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  ssh host sandkeep open
`;

const options = {
  print: { type: "boolean" },
  json: { type: "boolean" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

/** the daemon's answer (src/api/dashboard/dashboard.ts), which is no part of the API */
interface Link {
  url: string;
  /** ms since 1970 */
  expiresAt: number;
}

export async function openCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, openUsage, options);
  if (values.help) return showUsage(openUsage, context);
  if (positionals.length > 0) throw misuse(`Cannot open "${positionals[0]}": it takes no name`, openUsage);
  const browser = values.print || values.json ? undefined : browserOf(context);
  const client = new Client({
    url: daemonUrl(values, context),
    key: apiKey(values["data-dir"], context),
  });
  const link = (await client.call("open the dashboard", "POST", "/ui/links")) as Link;
  if (values.json) return void context.print(plainJson(link));
  if (browser === undefined) return void context.print(link.url);
  // A browser takes other words as options, which may name programs to start. This one comes from the daemon.
  if (!isWebAddress(link.url))
    throw new CliError("Cannot open the dashboard: the daemon's answer is no address of a page");
  await start(browser, link.url).catch((error) => {
    context.warn(
      `Cannot start ${browser}: ${error instanceof Error ? error.message : error}; open this link yourself:`,
    );
    context.print(link.url);
  });
}

export function isWebAddress(text: string): boolean {
  return /^https?:\/\/[^\s"'`$\\]+$/.test(text) && URL.canParse(text);
}

/** the program that opens an address on this desktop; undefined without a desktop, or if another program reads the link */
export function browserOf({ environment, output }: Pick<CommandContext, "environment" | "output">): string | undefined {
  const { BROWSER, DISPLAY, WAYLAND_DISPLAY } = environment;
  if (!output.isTTY) return undefined;
  // It may be a list with places for the address, which xdg-open understands.
  if (BROWSER && !/[:%\s]/.test(BROWSER)) return BROWSER;
  return DISPLAY || WAYLAND_DISPLAY ? "xdg-open" : undefined;
}

/** resolves once the program has started: a browser may stay as long as its window */
async function start(program: string, address: string): Promise<void> {
  const { spawn } = await import("node:child_process");
  const child = spawn(program, [address], { stdio: "ignore", detached: true });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const noSuch = new CliError("there is no such program");
  child.once("error", (error: NodeJS.ErrnoException) => reject(error.code === "ENOENT" ? noSuch : error));
  child.once("exit", (code) => (code === 0 ? resolve() : reject(new CliError(`it ended with ${code}`))));
  const timer = setTimeout(resolve, 2000);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    child.unref();
  }
}
