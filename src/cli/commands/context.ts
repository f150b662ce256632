/** `sandkeep context`: several daemons by name, and which of them commands ask. */

import { Client } from "../client/client.ts";
import { daemonUrl } from "../client/connection.ts";
import { contextNamed, readContexts, writeContexts } from "../client/contexts.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, Refusal } from "../errors.ts";
import { hiddenLine } from "../print/hidden-line.ts";
import { plainJson } from "../print/plain.ts";
import { printTable } from "../print/table.ts";
import { verbAndNames } from "../verbs.ts";

export const contextUsage = `Usage: sandkeep context ls
       sandkeep context create <name> --url <url>
       sandkeep context use <name>
       sandkeep context rm <name>

Remembers daemons by name, with a key for each, and chooses the one that commands on sandboxes, egress and key ask.
create asks for the key, or reads it from standard input. "use default" goes back to the daemon of this host. An option or
a variable that names a daemon comes first; SANDKEEP_CONTEXT chooses for one command.

Options:
  --url <url>              where the daemon is
  --json                   print JSON, without the keys

Example:
  sandkeep context create work --url https://sandkeep.example.com && sandkeep context use work
`;

/** the daemon of this host */
const here = "default";

/** how many names each takes */
const verbs = { ls: 0, create: 1, use: 1, rm: 1 };

export async function contextCommand(args: string[], context: CommandContext): Promise<undefined> {
  const options = { url: { type: "string" }, json: { type: "boolean" } } as const;
  const { values, positionals } = await readArgs(args, contextUsage, options);
  if (values.help) return showUsage(contextUsage, context);
  const { verb, names } = verbAndNames("context", positionals, verbs, contextUsage);
  const { environment, print } = context;
  const known = readContexts(environment);
  const [name = ""] = names;
  if (verb === "ls") {
    const all = Object.entries(known.contexts).map(([each, { url }]) => ({ name: each, url }));
    const listed = [{ name: here, url: "" }, ...all].map((each) => ({
      ...each,
      current: each.name === (known.current ?? here),
    }));
    if (values.json) return print(plainJson(listed)) as undefined;
    const rows = listed.map(({ name: each, url, current }) => [current ? "*" : "", each, url || "this host"]);
    printTable(["", "NAME", "ADDRESS"], rows, context);
    return;
  }
  if (verb === "use") {
    if (name !== here) contextNamed(name, known.contexts);
    writeContexts({ ...known, current: name === here ? null : name }, environment);
  } else if (verb === "rm") {
    contextNamed(name, known.contexts);
    const { [name]: _, ...contexts } = known.contexts;
    writeContexts({ current: known.current === name ? null : known.current, contexts }, environment);
  } else {
    if (!/^[\w.-]{1,64}$/.test(name) || name === here)
      throw new CliError(`Cannot call a context "${name}": use letters, digits, dots and dashes, and not "${here}"`);
    if (values.url === undefined) throw new CliError(`Cannot make the context "${name}": give its --url`);
    const url = daemonUrl(values, { environment: {}, dataDirs: [] });
    const key = await keyFor(url, context);
    await new Client({ url, key }).requireAccess({}).catch((error: unknown) => {
      throw error instanceof Refusal && error.status === 401 ? refusedKey(name, url) : error;
    });
    writeContexts({ ...known, contexts: { ...known.contexts, [name]: { url, key } } }, environment);
  }
  print(values.json ? plainJson({ name }) : name);
}

/** Its hint is about the key that was given here, which no variable and no file had. */
function refusedKey(name: string, url: string): CliError {
  const hint = "sandkeep key create makes one where the daemon can be used; give the secret that it prints";
  return new CliError(`Cannot make the context "${name}": the daemon at "${url}" does not accept this key`, hint);
}

async function keyFor(url: string, { input, errors }: CommandContext): Promise<string> {
  let key = "";
  if (input.isTTY) key = await hiddenLine(`Key for ${url}: `, input, errors);
  else for await (const chunk of input) key += chunk;
  if (key.trim() !== "") return key.trim();
  throw new CliError("Cannot make a context without a key", "type it, or pass it on standard input");
}
