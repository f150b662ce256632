/** `sandkeep image build|from-snapshot|export`: images that a running daemon makes and exports. */

import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { readFile, rm, stat } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import { codeOf } from "../../base/error-code.ts";
import { TarWriter } from "../../base/tar/writer.ts";
import { ApiError } from "../../client/client.ts";
import type { Output } from "../../client/types.ts";
import { streamed } from "../client/broken-stream.ts";
import { packContext } from "../client/build-context.ts";
import type { KeyPlaces } from "../client/connection.ts";
import { Daemon } from "../client/daemon.ts";
import { type CommandContext, readArgs } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { isRecipe } from "../image-recipes.ts";
import { metered } from "../print/meter.ts";
import { plainJson } from "../print/plain.ts";
import { snapshotNamed } from "../sandboxes/snapshots.ts";
import { countOf } from "../units.ts";

export const imageBuildUsage = `Usage:
  sandkeep image build [options] <directory>
      builds an image from a Dockerfile, in sandboxes of the running daemon; - reads a Dockerfile, or a tar with one,
      from standard input
  sandkeep image from-snapshot <snapshot> <name>
      makes an image with the files of a snapshot, which is named by its id or its name
  sandkeep image export <name> [-o <file>]
      writes an image as an archive that skopeo, podman and Docker read

Options of build:
  -t, --tag <name>         what the image will be called; without it, the build only shows whether it works
  -f, --file <path>        the Dockerfile (Dockerfile in the directory)
  --target <stage>         the stage to build (the last)
  --build-arg <name=value> a value for an ARG; without a value, that of the environment's variable
  --no-cache               do every step again
  --network <policy>       what steps may reach: none, all, or domains and ranges separated by commas (all)
  --timeout <seconds>      longest it may take (3600)
  --progress <how>         plain, quiet or json (plain)

Options:
  -o, --output <file>      where an archive goes; - is standard output (-)
  --json                   print JSON; of a build, what it does as lines of JSON, as with --progress json
  --project <id or name>   the project whose limits of the key apply (your team's first)
  --team <id or name>      with an admin key: the team whose image it is
  --url <url>              where the daemon is (SANDKEEP_URL or SANDKEEP_PORT, else what the daemon has recorded)
  --data-dir <directory>   where the daemon's api-key file is, unless SANDKEEP_API_KEY is set

Example:
  sandkeep image build -t app . && sandkeep run app
`;

export interface ImageBuildContext
  extends KeyPlaces,
    Pick<CommandContext, "output" | "errors" | "warn" | "write" | "now"> {
  input: AsyncIterable<Uint8Array>;
  print(line: string): void;
  /** shows what is being done now */
  progress(text: string): void;
}

/** whether a `sandkeep image` command needs the running daemon */
export function needsDaemon(args: string[]): boolean {
  const offline = { name: { type: "string" }, suite: { type: "string" }, include: { type: "string" } } as const;
  const { positionals } = parseArgs({ args, options: { ...options, ...offline }, strict: false });
  const [verb, operand] = positionals;
  return verb === "from-snapshot" || verb === "export" || (verb === "build" && !isRecipe(operand));
}

const options = {
  tag: { type: "string", short: "t" },
  file: { type: "string", short: "f" },
  target: { type: "string" },
  "build-arg": { type: "string", multiple: true },
  "no-cache": { type: "boolean" },
  network: { type: "string" },
  timeout: { type: "string" },
  progress: { type: "string" },
  output: { type: "string", short: "o" },
  json: { type: "boolean" },
  project: { type: "string" },
  team: { type: "string" },
  url: { type: "string" },
  "data-dir": { type: "string" },
} as const;

type Values = Awaited<ReturnType<typeof read>>["values"];

export async function imageBuildCommand(args: string[], context: ImageBuildContext): Promise<void> {
  const { values, positionals } = await read(args);
  if (values.help) return context.print(imageBuildUsage.trimEnd());
  const [verb = "", ...operands] = positionals;
  const wanted = { build: 1, "from-snapshot": 2, export: 1 }[verb] ?? 0;
  if (operands.length !== wanted) {
    throw misuse(`Cannot do "image ${verb}": it takes ${wanted} names`, imageBuildUsage);
  }
  const [first = "", second = ""] = operands;
  const daemon = new Daemon(values, context);
  if (verb === "build") return build(daemon, first, values, context);
  if (verb === "export") return exported(daemon, first, values, context);
  const what = `make the image "${second}"`;
  const snapshot = await snapshotNamed(daemon, first, what);
  const made = daemon.client.call("createImageFromSnapshot", { params: { snapshot }, body: { name: second } });
  const { image } = await daemon.ask(what, made);
  context.print(values.json ? plainJson(image) : `${image.name}  ${image.digest}`);
}

function read(args: string[]) {
  return readArgs(args, imageBuildUsage, options);
}

// docs/images.md defines the daemon's lines.
type Image = Output<"createImageFromSnapshot">["image"];

type Line =
  | { type: "waiting" | "cached" }
  | { type: "note"; message: string }
  | { type: "pulling"; image: string; received: number; total: number }
  | { type: "step"; stage: string; index: number; total: number; text: string }
  | { type: "output"; stream: "stdout" | "stderr"; text: string }
  | { type: "done"; took: number }
  | { type: "start"; text: string }
  | { type: "built"; image: Image | null };

async function build(daemon: Daemon, directory: string, values: Values, context: ImageBuildContext): Promise<void> {
  const how = values.progress ?? (values.json ? "json" : "plain");
  if (values.json && how !== "json") throw new CliError(`Cannot use --json with --progress ${how}: say one of them`);
  if (!["plain", "quiet", "json"].includes(how))
    throw new CliError(`Cannot show progress as "${how}": say plain, quiet or json`);
  const { query, tar } =
    directory === "-" ? await fromInput(context.input, values.file) : await fromDirectory(directory, values.file);
  const args = buildArgs(values["build-arg"] ?? [], context.environment);
  const network = { none: "deny-all", all: "allow-all" }[values.network ?? ""] ?? values.network;
  const parameters = {
    ...query,
    ...(values.tag !== undefined && { name: values.tag }),
    ...(values.target !== undefined && { target: values.target }),
    ...(values["no-cache"] && { cache: false }),
    ...(network !== undefined && { network }),
    ...(values.timeout !== undefined && { timeout: countOf("--timeout", values.timeout) }),
    ...daemon.scope,
    ...(Object.keys(args).length > 0 && { args: JSON.stringify(args) }),
  };
  const show = how === "plain" ? new PlainProgress(context.progress) : undefined;
  const sent = how === "plain" ? metered(tar, { what: "Sending the files" }, context) : tar;
  const lines = daemon.client.lines("buildImage", {
    query: parameters,
    headers: { "content-type": "application/x-tar" },
    // The transport takes any iterable of bytes.
    bytes: sent as unknown as NonNullable<RequestInit["body"]>,
  });
  for await (const each of streamed(daemon, "build the image", inItsWords(lines))) {
    // docs/images.md describes the lines, each with its own members.
    const line = each as Line;
    if (how === "json") context.print(plainJson(line));
    else show?.take(line);
    if (line.type !== "built" || how === "json") continue;
    context.print(line.image ? `${line.image.name}  ${line.image.digest}` : "built, without a name: -t gives it one");
  }
}

/** what went wrong in a step is said as the daemon says it */
async function* inItsWords<T>(lines: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* lines;
  } catch (error) {
    throw error instanceof ApiError && error.status === 0 ? new CliError(error.message) : error;
  }
}

interface Sent {
  query: { file: string; apart?: boolean };
  tar: AsyncIterable<Uint8Array>;
}

async function fromDirectory(directory: string, file: string | undefined): Promise<Sent> {
  const root = resolve(directory);
  const isThere = await stat(root).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
  if (!isThere) throw new CliError(`Cannot build from "${directory}": there is no such directory`);
  const path = file === undefined ? resolve(root, "Dockerfile") : resolve(file);
  const text = await readFile(path, "utf8").catch((cause) => {
    if (codeOf(cause) === "ENOENT" && file === undefined)
      throw new CliError(`Cannot build from "${directory}": it has no Dockerfile`, "-f names another file");
    if (codeOf(cause) === "ENOENT") throw new CliError(`Cannot read the Dockerfile "${path}": there is no such file`);
    throw new CliError(`Cannot read the Dockerfile "${path}": ${cause.message}`);
  });
  const below = relative(root, path).split(sep).join("/");
  const isBelow = !below.startsWith("../") && !isAbsolute(below);
  if (isBelow) return { query: { file: below }, tar: packContext({ directory: root, file: below }) };
  const name = `.sandkeep-${randomBytes(8).toString("hex")}`;
  return { query: { file: name, apart: true }, tar: packContext({ directory: root, extra: { [name]: text } }) };
}

/** a tar stays unchanged; anything else is a Dockerfile without files */
async function fromInput(input: AsyncIterable<Uint8Array>, file = "Dockerfile"): Promise<Sent> {
  const chunks: Uint8Array[] = [];
  const iterator = input[Symbol.asyncIterator]();
  let length = 0;
  let next = await iterator.next();
  for (; !next.done && length < 1024; next = await iterator.next()) {
    chunks.push(next.value);
    length += next.value.length;
  }
  if (!next.done) chunks.push(next.value);
  const head = Buffer.concat(chunks);
  const isPacked = head.subarray(0, 2).equals(Buffer.from([0x1f, 0x8b])) || head.readUInt32BE(0) === 0x28b52ffd;
  async function* all(): AsyncGenerator<Uint8Array> {
    yield head;
    for (let each = await iterator.next(); !each.done; each = await iterator.next()) yield each.value;
  }
  if (isPacked || head.subarray(257, 262).toString() === "ustar") return { query: { file }, tar: all() };
  const text = Buffer.concat(await Array.fromAsync(all())).toString();
  return { query: { file: "Dockerfile" }, tar: packText("Dockerfile", text) };
}

async function* packText(name: string, text: string): AsyncGenerator<Buffer> {
  const tar = new TarWriter();
  yield* tar.small({ name }, Buffer.from(text));
  yield* tar.end();
}

function buildArgs(given: string[], environment: NodeJS.ProcessEnv): Record<string, string> {
  const args: Record<string, string> = {};
  for (const each of given) {
    const at = each.indexOf("=");
    const name = at < 0 ? each : each.slice(0, at);
    const value = at < 0 ? environment[name] : each.slice(at + 1);
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw new CliError(`Cannot use the build argument "${each}": say name=value`);
    if (value !== undefined) args[name] = value;
  }
  return args;
}

/** removes control characters, because a build's output is not trusted and goes to a terminal */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  return text.replaceAll("\r\n", "\n").replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}

/** Lines for people: each step with its number and output. */
class PlainProgress {
  readonly #write: (text: string) => void;
  #isCached = false;
  #isInLine = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  take(line: Line): void {
    if (line.type === "output") {
      this.#isInLine = !line.text.endsWith("\n");
      this.#write(plain(line.text));
      return;
    }
    if (this.#isInLine) this.#write("\n");
    this.#isInLine = false;
    if (line.type === "waiting") this.#write("waiting for other builds\n");
    if (line.type === "note") this.#write(`note: ${plain(line.message)}\n`);
    if (line.type === "pulling") {
      const [received, total] = [line.received, line.total].map((bytes) => (bytes / 1e6).toFixed(1));
      this.#write(`pulling ${plain(line.image)}: ${received} of ${total} MB\n`);
    }
    if (line.type === "cached") this.#isCached = true;
    if (line.type === "step") {
      this.#isCached = false;
      this.#write(`[${line.stage} ${line.index}/${line.total}] ${plain(line.text)}\n`);
    }
    if (line.type === "start") this.#write(`[start] ${plain(line.text)}\n`);
    if (line.type === "done")
      this.#write(this.#isCached ? "  cached\n" : `  done in ${(line.took / 1000).toFixed(1)} s\n`);
  }
}

/** leaves no partial archive behind on failure */
async function exported(daemon: Daemon, name: string, values: Values, context: ImageBuildContext): Promise<void> {
  const { output: file = "-", json = false } = values;
  const { output, write, print } = context;
  if (json && file === "-")
    throw new CliError("Cannot print JSON: the archive goes to standard output", "-o writes it to a file");
  const what = `export image "${name}"`;
  const asked = daemon.client.send("exportImage", { query: { ...daemon.team, name } });
  const { body } = await daemon.ask(what, asked);
  let length = 0;
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of streamed(daemon, what, body ?? emptyBody())) {
      length += chunk.length;
      yield chunk;
    }
  }
  const bytes = metered(counted(), { what: `Exporting ${name}` }, context);
  if (file === "-") {
    for await (const chunk of bytes) await write(output, chunk);
    return;
  }
  try {
    await pipeline(bytes, createWriteStream(file));
  } catch (cause) {
    await rm(file, { force: true });
    if (cause instanceof CliError) throw cause;
    throw new CliError(`Cannot write "${file}": ${cause instanceof Error ? cause.message : cause}`);
  }
  print(json ? plainJson({ name, file, size: length }) : `wrote ${file}`);
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}
