/**
 * Makes a user's name the one that programs show for the user's number. One number may have several names, and programs
 * show the first in /etc/passwd (`whoami`) and in /etc/group (`id -gn`).
 */

import { isSandkeepError } from "./errors.ts";
import type { Files, Machine } from "./runtime.ts";

/** changes files of the machine only where another name comes first */
export async function showName(machine: Machine, user: string): Promise<void> {
  const files = machine.files();
  const [passwd, group] = await Promise.all([contentOf(files, "/etc/passwd"), contentOf(files, "/etc/group")]);
  const [, , uid, gid] =
    passwd
      .split("\n")
      .map((line) => line.split(":"))
      .find(([name]) => name === user) ?? [];
  if (uid === undefined || gid === undefined) return;
  const changed = { "/etc/passwd": withFirst(passwd, user, uid), "/etc/group": withFirst(group, user, gid) };
  const before = { "/etc/passwd": passwd, "/etc/group": group };
  for (const path of ["/etc/passwd", "/etc/group"] as const) {
    if (changed[path] !== before[path]) await files.write(path, Buffer.from(changed[path]));
  }
}

/** nothing for a file that is not there: then programs show numbers */
async function contentOf(files: Files, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of files.read(path)) chunks.push(chunk);
  } catch (error) {
    if (!isSandkeepError(error, "not-found")) throw error;
  }
  return Buffer.concat(chunks).toString();
}

/** the file with the line of this name before all others of the same number; a group that is missing is made */
export function withFirst(file: string, name: string, number: string): string {
  const lines = file.split("\n");
  const isOfNumber = (line: string) => line.split(":")[2] === number;
  const own = lines.find((line) => line.startsWith(`${name}:`)) ?? `${name}:x:${number}:`;
  const others = lines.filter((line) => line !== own);
  const at = others.findIndex(isOfNumber);
  return at < 0 ? file : [...others.slice(0, at), own, ...others.slice(at)].join("\n");
}
