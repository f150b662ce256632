/** The header that makes a browser save an answer as a file. */

import { posix } from "node:path";

/** the value of `content-disposition`, with only characters that are safe in a header */
export function attachment(path: string): string {
  const name = posix.basename(path);
  const plain = name.replace(/[^\x20-\x7e]|["\\]/g, "_");
  return `attachment; filename="${plain}"${plain === name ? "" : `; filename*=UTF-8''${encodeURIComponent(name.toWellFormed())}`}`;
}
