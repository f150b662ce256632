/**
 * Metadata of files: headers `X-Metadata-<key>` of an upload become extended attributes of the file, and each upload
 * replaces all of them.
 */

import { Refusal } from "../../kit/refusal.ts";

export const metadataPrefix = "user.e2b.";
const header = "x-metadata-";
/** bytes; the kernel allows 255 for a name with its prefix */
const longestKey = 255 - metadataPrefix.length;
/** bytes of all keys and values */
const longest = 4096;

export type Metadata = Record<string, string>;

export function metadataOf({ headers }: Pick<Request, "headers">): Metadata {
  const pairs = [...headers].filter(([name]) => name.startsWith(header));
  const metadata = pairs.map(([name, value]): [string, string] => [name.slice(header.length), value]);
  let length = 0;
  for (const [key, value] of metadata) {
    length += key.length + value.length;
    if (key === "" || key.length > longestKey) {
      throw new Refusal(400, `Cannot keep metadata with a file: a key should have 1 to ${longestKey} characters`);
    }
    if (!/^[\x20-\x7e]*$/.test(value)) {
      throw new Refusal(400, `Cannot keep metadata with a file: "${key}" has characters that are not printable ASCII`);
    }
  }
  if (length <= longest) return Object.fromEntries(metadata);
  throw new Refusal(400, `Cannot keep metadata with a file: it has more than ${longest} bytes`);
}

/** the metadata among a file's attributes; programs inside can set them too */
export function metadataIn(attributes: Record<string, string> = {}): { metadata?: Metadata } {
  const found = Object.entries(attributes).filter(([name]) => name.startsWith(metadataPrefix));
  if (found.length === 0) return {};
  return { metadata: Object.fromEntries(found.map(([name, value]) => [name.slice(metadataPrefix.length), value])) };
}
