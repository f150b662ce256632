/** `sandkeep cp`: copies files and directories between this host and a sandbox. */

import { constants } from "node:fs";
import { lstat, open, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, posix } from "node:path";
import { codeOf } from "../../base/error-code.ts";
import { byteString } from "../../base/tar/byte-string.ts";
import { TarWriter } from "../../base/tar/writer.ts";
import { Daemon, daemonOptions, daemonUsage } from "../client/daemon.ts";
import { type CommandContext, readArgs, showUsage } from "../command.ts";
import { CliError, misuse } from "../errors.ts";
import { LeftOut } from "../files/left-out.ts";
import { packDirectory, packEntry } from "../files/pack.ts";
import { RemoteFiles } from "../files/remote-files.ts";
import { requireRoom, writeSparse } from "../files/sparse-file.ts";
import { unpack } from "../files/unpack.ts";
import { metered } from "../print/meter.ts";
import { plainJson } from "../print/plain.ts";

export const cpUsage = `Usage: sandkeep cp [options] <path> <sandbox>:<path>
       sandkeep cp [options] <sandbox>:<path> <path>
       sandkeep cp [options] - <sandbox>:<path>
       sandkeep cp [options] <sandbox>:<path> -

Copies a file, or a directory with everything in it. If the target is a directory, the copy is made in it; a directory
whose path ends with "/." is copied without its own name. A relative path in a sandbox begins where its programs start.

"-" stands for standard input or output. A file is its bytes there, and the content of a directory is a tar. To unpack a
tar, name a directory that exists, or end its path with "/".

Options:
  -u, --user <name>        the user of the sandbox that owns the copies, and whose rights count in a sandbox without
                           sudo (the sandbox's own user)
${daemonUsage}
Example:
  sandkeep cp ./app demo:/srv && sandkeep cp demo:/srv/app/report.txt .
  sandkeep cp demo:/srv/app - | tar -tf -
`;

export async function cpCommand(args: string[], context: CommandContext): Promise<undefined> {
  const { values, positionals } = await readArgs(args, cpUsage, {
    user: { type: "string", short: "u" },
    ...daemonOptions,
  });
  if (values.help) return showUsage(cpUsage, context);
  const [from, to, ...rest] = positionals.map(placeOf);
  if (!from || !to || rest.length > 0 || (from.sandbox === undefined) === (to.sandbox === undefined))
    throw misuse("Cannot copy: give two paths, one of them as <sandbox>:<path>", cpUsage);
  const sandbox = from.sandbox ?? to.sandbox ?? "";
  const what = `copy "${positionals[0]}" to "${positionals[1]}"`;
  const daemon = new Daemon(values, context);
  const named = { params: { sandbox }, query: daemon.scope };
  const { session } = await daemon.askAbout(sandbox, what, daemon.client.call("getSandbox", named));
  const remote = new RemoteFiles(daemon, session, { what, user: values.user });
  const copy =
    from.path === "-" ? fromInput : to.path === "-" ? toOutput : from.sandbox === undefined ? upload : download;
  const there = await copy(from, to, remote, context).catch((cause) => {
    throw codeOf(cause)?.startsWith("E") ? new CliError(`Cannot ${what}: ${cause.message}`) : cause;
  });
  if (values.json && there !== "-") context.print(plainJson({ from: positionals[0], to: there }));
}

interface Place {
  sandbox?: string;
  path: string;
}

/** A path of this host has a slash before its first colon, or none. */
export function placeOf(text: string): Place {
  const [, sandbox, path = ""] = /^([^/:]+):(.*)$/s.exec(text) ?? [];
  return sandbox === undefined ? { path: text } : { sandbox, path: path === "" ? "." : path };
}

/** a tar into a directory, or the bytes of a file */
async function fromInput(_: Place, to: Place, remote: RemoteFiles, context: CommandContext): Promise<string> {
  const { input } = context;
  if (input.isTTY)
    throw new CliError("Cannot copy from standard input: it is a terminal", `write: … | sandkeep cp - ${to.sandbox}:…`);
  const target = remote.absolute(to.path);
  const bytes = metered(input as AsyncIterable<Buffer>, { what: `Copying to ${to.sandbox}` }, context);
  if (to.path.endsWith("/") || isDirectoryAt(await remote.find(target))) await remote.unpack(target, bytes);
  else await remote.write(target, bytes);
  return target;
}

/** the content of a directory as a tar, or the bytes of a file */
async function toOutput(
  from: Place,
  _: Place,
  remote: RemoteFiles,
  { output, write }: CommandContext,
): Promise<string> {
  const source = remote.absolute(from.path);
  const file = await remote.find(source);
  if (!file) throw missing(from);
  const isDirectory = isDirectoryAt(file);
  if (isDirectory && output.isTTY)
    throw new CliError(`Cannot copy "${from.path}" to a terminal: it is a directory`, "add | tar -x to unpack it here");
  for await (const chunk of isDirectory ? await remote.pack(source) : await remote.read(source))
    await write(output, chunk);
  return "-";
}

function missing({ path }: Place): CliError {
  return new CliError(`Cannot copy "${path}": it does not exist in the sandbox`);
}

/** returns the path of the copy in the sandbox */
async function upload(from: Place, to: Place, remote: RemoteFiles, context: CommandContext): Promise<string> {
  const facts = await stat(from.path).catch((cause) => {
    throw new CliError(`Cannot copy "${from.path}": ${cause.code === "ENOENT" ? "it does not exist" : cause.message}`);
  });
  if (!facts.isFile() && !facts.isDirectory())
    throw new CliError(`Cannot copy "${from.path}": it is neither a file nor a directory`, "cp - copies what it reads");
  const target = remote.absolute(to.path);
  const isDirectory = to.path.endsWith("/") || isDirectoryAt(await remote.find(target));
  const isContent = facts.isDirectory() && /(^|\/)\.$/.test(from.path);
  const place = isDirectory && !isContent ? posix.join(target, basename(join(process.cwd(), from.path))) : target;
  const tar = new TarWriter();
  const leftOut = new LeftOut();
  const bytes = async function* () {
    const name = byteString(posix.basename(place));
    if (facts.isDirectory()) {
      if (place !== "/" && !isContent) yield* packEntry(tar, byteString(from.path), name);
      const prefix = name === "" ? "" : `${name}/`;
      yield* packDirectory(tar, { directory: byteString(from.path), prefix, leftOut: leftOut.add });
    } else yield* packEntry(tar, byteString(await realPath(from.path)), name);
    yield* tar.end();
  };
  const of = facts.isDirectory() ? undefined : facts.size;
  await remote.unpack(posix.dirname(place), metered(bytes(), { what: `Copying to ${to.sandbox}`, of }, context));
  leftOut.tell(context.warn);
  return place;
}

/** A symlink that is named itself is followed, as cp does. */
async function realPath(path: string): Promise<string> {
  return (await lstat(path)).isSymbolicLink() ? realpath(path) : path;
}

function isDirectoryAt(file: { type: string; targetType: string | null } | undefined): boolean {
  return file?.type === "directory" || file?.targetType === "directory";
}

/**
 * Returns the path of the copy on this host. An earlier copy of this sandbox's files may have left a symlink there, which
 * leads where the sandbox wants. So none is followed, unless it is a directory that the caller named.
 */
export async function download(
  from: Place,
  to: Place,
  remote: Pick<RemoteFiles, "absolute" | "find" | "pack" | "read">,
  context: Pick<CommandContext, "warn" | "errors" | "write" | "now">,
): Promise<string> {
  const { warn } = context;
  const what = `Copying from ${from.sandbox}`;
  const source = remote.absolute(from.path);
  const file = await remote.find(source);
  if (!file) throw missing(from);
  const isDirectory = isDirectoryAt(file);
  const isContent = isDirectory && /(^|\/)\.$/.test(from.path);
  const isInto = (await stat(to.path).catch(() => undefined))?.isDirectory() ?? false;
  const place = isInto && !isContent ? join(to.path, posix.basename(source)) : to.path;
  if (isDirectory) {
    if (place !== to.path && (await lstat(place).catch(() => undefined))?.isSymbolicLink()) throw symlinkAt(place);
    const leftOut = new LeftOut();
    leftOut.add(await unpack(metered(await remote.pack(source), { what }, context), place));
    leftOut.tell(warn);
    return place;
  }
  const { mode, size } = file.type === "symlink" ? await aimOf(source, remote) : file;
  const there = await lstat(place).catch(() => undefined);
  // A pipe or a device takes any number of bytes.
  if (!there || there.isFile())
    await requireRoom(
      byteString(dirname(place)),
      { name: byteString(place), size: size ?? 0 },
      (there?.blocks ?? 0) * 512,
    );
  const bytes = metered(await remote.read(source), { what, of: size }, context);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const write = async () => {
    await using target = await open(place, flags, mode & 0o777);
    await writeSparse(target, bytes);
  };
  await write().catch((cause) => {
    if (cause instanceof CliError) throw cause;
    throw codeOf(cause) === "ELOOP" ? symlinkAt(place) : new CliError(`Cannot write "${place}": ${cause.message}`);
  });
  return place;
}

/**
 * The mode and size of the file that a symlink leads to, whose content a copy has. Its names are followed here, which
 * directories that are symlinks may lead elsewhere: a copy of what is not found is for its owner only.
 */
async function aimOf(link: string, remote: Pick<RemoteFiles, "find">): Promise<{ mode: number; size?: number }> {
  let path = link;
  for (let steps = 0; steps < mostSteps; steps++) {
    const file = await remote.find(path);
    if (file?.type === "file") return file;
    if (file?.type !== "symlink" || file.target === null) break;
    path = posix.resolve(posix.dirname(path), file.target);
  }
  return { mode: 0o600 };
}

/** symlinks that lead to each other, as far as Linux follows them */
const mostSteps = 40;

function symlinkAt(place: string): CliError {
  return new CliError(`Cannot write "${place}": it is a symlink`, "remove it, or name another target");
}
