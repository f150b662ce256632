/** `sandkeep registry …`: logins to registries. Passwords come from standard input, are sealed, and are never shown. */

import { parseArgs } from "node:util";
import { optionProblem } from "../../base/similar.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { type Credentials, checkRegistry } from "../../runtime/linux/registry/credentials.ts";
import { plainJson } from "../print/plain.ts";
import { shown } from "../print/shown.ts";
import { unknownVerb, verbOf } from "../verbs.ts";

export const registryUsage = `Usage:
  sandkeep registry login <registry> --user <name>
      reads the password from standard input, or asks for it on a terminal; it is sealed in the data directory
  sandkeep registry logout <registry>
  sandkeep registry ls
      lists the logins made here, and those of docker login

Options:
  --json                   print JSON
  --data-dir <directory>   where Sandkeep keeps everything (SANDKEEP_DATA_DIR, /var/lib/sandkeep)

Example:
  sandkeep registry login ghcr.io --user me
`;

/** What the command reads and writes. */
export interface RegistryContext {
  open(dataDir: string | undefined): Credentials;
  /** reads a line from a terminal without echo; undefined if there is no terminal */
  prompt?: ((question: string) => Promise<string>) | undefined;
  input: AsyncIterable<Uint8Array>;
  print(line: string): void;
}

export async function registryCommand(args: string[], context: RegistryContext): Promise<void> {
  const { values, positionals } = parse(args);
  const [given = "", registry = "", ...rest] = positionals;
  if (values.help || args.length === 0) return context.print(registryUsage.trimEnd());
  const verb = verbOf(given);
  const command = Object.hasOwn(commands, verb) ? commands[verb] : undefined;
  if (!command) throw usageError(unknownVerb("registry", given, Object.keys(commands)));
  if (rest.length > 0 || (registry === "") !== (verb === "ls")) {
    throw usageError(`Cannot do "registry ${given}": it takes ${verb === "ls" ? "no name" : "the name of a registry"}`);
  }
  if (values.user !== undefined && verb !== "login")
    throw usageError(`Cannot use --user with "registry ${given}": it is for login`);
  const { user, json = false } = values;
  const show = (value: unknown, text: string) => context.print(json ? plainJson(value) : text);
  await command({ context, credentials: context.open(values["data-dir"]), registry, user, json, show });
}

interface Job {
  context: RegistryContext;
  credentials: Credentials;
  registry: string;
  user: string | undefined;
  json: boolean;
  /** prints a value as JSON, or the text */
  show(value: unknown, text: string): void;
}

const commands: Record<string, (job: Job) => Promise<void>> = {
  async login({ context, credentials, registry, user, show }) {
    checkRegistry(registry);
    if (user === undefined) throw usageError(`Cannot log in to "${registry}": --user says as whom`);
    const password = context.prompt ? await context.prompt("Password: ") : await firstLine(context.input);
    await credentials.put(registry, { user, password });
    show({ registry, user }, `logged in to ${registry} as ${shown(user)}; nothing was asked of it yet`);
  },
  async logout({ credentials, registry, show }) {
    await credentials.delete(registry);
    show({ registry, deleted: true }, `logged out of ${registry}`);
  },
  async ls({ context, credentials, json, show }) {
    const logins = await credentials.list();
    if (json) return show(logins, "");
    for (const { registry, user, from } of logins) {
      context.print(`${shown(registry)}  ${shown(user)}${from === "docker" ? "  (docker login)" : ""}`);
    }
  },
};

/** the input without its final line break, which editors add */
async function firstLine(input: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > 32_768) break;
  }
  return Buffer.concat(chunks)
    .toString()
    .replace(/\r?\n$/, "");
}

function parse(args: string[]) {
  const options = {
    help: { type: "boolean", short: "h" },
    json: { type: "boolean" },
    "data-dir": { type: "string" },
    user: { type: "string", short: "u" },
  } as const;
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (cause) {
    throw usageError(optionProblem(cause, Object.keys(options)));
  }
}

/** with the forms of the command, and not with all of its help */
function usageError(message: string): SandkeepError {
  const [forms] = registryUsage.split("\n\n", 1);
  return new SandkeepError("invalid", `${message}\n\n${forms}\nhint: sandkeep registry --help shows the options`);
}
