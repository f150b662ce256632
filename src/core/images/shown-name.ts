/**
 * Makes a user's name the one that programs show for the user's number. A number may have several names; programs show
 * the first one in /etc/passwd (`whoami`) and in /etc/group (`id -gn`).
 */

import { isSandkeepError } from "../model/errors.ts";
import type { Files } from "../ports/runtime.ts";

const paths = ["/etc/passwd", "/etc/group"] as const;
/** most bytes of a file that is changed: programs may have made it, and it comes into the daemon's memory as a list of lines */
const longest = 128 << 10;

/** A file of an image with its new content. */
export interface NameChange {
  path: (typeof paths)[number];
  content: Buffer;
}

export async function showName(files: Files, user: string): Promise<void> {
  for (const { path, content } of await nameChanges(files, user)) await files.write(path, content);
}

/** the files that must change; none if the name comes first already */
export async function nameChanges(files: Files, user: string): Promise<NameChange[]> {
  const [passwd = "", group = ""] = await Promise.all(paths.map((path) => contentOf(files, path)));
  const [, , uid, gid] =
    passwd
      .split("\n")
      .map((line) => line.split(":"))
      .find(([name]) => name === user) ?? [];
  if (uid === undefined || gid === undefined) return [];
  const before = { "/etc/passwd": passwd, "/etc/group": group };
  const after = { "/etc/passwd": withFirst(passwd, user, uid), "/etc/group": withFirst(group, user, gid) };
  return paths
    .filter((path) => after[path] !== before[path])
    .map((path) => ({ path, content: Buffer.from(after[path]) }));
}

/** empty if the file is missing or too long; it stays as it is then */
async function contentOf(files: Files, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of files.read(path, { length: longest + 1 })) chunks.push(chunk);
  } catch (error) {
    if (!isSandkeepError(error, "not-found")) throw error;
  }
  const content = Buffer.concat(chunks);
  return content.length > longest ? "" : content.toString();
}

/** the file with this name's line before all others of the same number; adds a missing group */
export function withFirst(file: string, name: string, number: string): string {
  const lines = file.split("\n");
  const isOfNumber = (line: string) => line.split(":")[2] === number;
  const own = lines.find((line) => line.startsWith(`${name}:`)) ?? `${name}:x:${number}:`;
  const others = lines.filter((line) => line !== own);
  const at = others.findIndex(isOfNumber);
  return at < 0 ? file : [...others.slice(0, at), own, ...others.slice(at)].join("\n");
}
