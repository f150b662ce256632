/** Reads the egress log of a machine backwards: its newest lines first, without parsing those that are not wanted. */

import { constants } from "node:fs";
import { open, stat } from "node:fs/promises";
import { join } from "node:path";
import type { EgressJournal } from "../../../core/ports/runtime.ts";
import {
  type EgressLogLine,
  egressLogFile,
  olderEgressLogFile,
  readEgressLine,
} from "../../../protocols/egress-log.ts";
import { isMissing } from "../storage/json-file.ts";
import { readFormat } from "../storage/read-format.ts";

/** bytes at the end of a file that usually have all that is wanted */
const usualPart = 64 << 10;

/** newest first */
export async function newestLines(
  folder: string,
  { limit, refused, isWanted }: Parameters<EgressJournal["newest"]>[0],
): Promise<EgressLogLine[]> {
  const found: EgressLogLine[] = [];
  let oldest = Number.POSITIVE_INFINITY;
  for (const name of [egressLogFile, olderEgressLogFile]) {
    for await (const text of linesFromEnd(join(folder, name))) {
      if (refused && !text.includes('"allowed":false')) continue;
      const line = readFormat(() => readEgressLine(text));
      // If the file was rotated in between, the older one begins with lines that have been read.
      if (!line || line.id >= oldest) continue;
      oldest = line.id;
      if (refused && !("allowed" in line && !line.allowed)) continue;
      if (!isWanted(line)) continue;
      found.push(line);
      if (found.length >= limit) return found;
    }
  }
  return found;
}

/** when the log was last written to; undefined if it has no line */
export async function logChangedAt(folder: string): Promise<number | undefined> {
  for (const name of [egressLogFile, olderEgressLogFile]) {
    const file = await stat(join(folder, name)).catch(() => undefined);
    if (file && file.size > 0) return Math.ceil(file.mtimeMs);
  }
  return undefined;
}

async function* linesFromEnd(path: string): AsyncGenerator<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (!file) return;
  try {
    let end = (await file.stat()).size;
    let rest = Buffer.alloc(0);
    for (let part = usualPart; end > 0; part = end) {
      const length = Math.min(part, end);
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, end - length);
      if (bytesRead < length) return; // It was cut meanwhile.
      end -= length;
      const content = Buffer.concat([buffer, rest]);
      const begin = end > 0 ? content.indexOf(0x0a) + 1 : 0;
      // Without a line break the whole part belongs to a longer line.
      if (end > 0 && begin === 0) {
        rest = content;
        continue;
      }
      yield* backwards(content.subarray(begin));
      rest = content.subarray(0, begin);
    }
  } finally {
    await file.close();
  }
}

/** whole lines only: what follows the last line break is still being written */
function* backwards(content: Buffer): Generator<string> {
  for (let end = content.lastIndexOf(0x0a); end >= 0; ) {
    const begin = end === 0 ? 0 : content.lastIndexOf(0x0a, end - 1) + 1;
    if (begin < end) yield content.toString("utf8", begin, end);
    end = begin - 1;
  }
}
