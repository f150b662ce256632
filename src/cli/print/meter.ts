/** How far a copy has come: a bar on a terminal, elsewhere a line now and then. Short copies show nothing. */

import { sizeInWords } from "../../base/size-in-words.ts";
import type { CommandContext } from "../command.ts";
import { redrawn } from "./output.ts";

/** ms before the first sign of life */
const quiet = 500;
/** ms between two bars, and between two lines */
const pauses = { bar: 100, line: 10_000 };

type Shown = Pick<CommandContext, "errors" | "warn" | "write" | "now">;

/** passes bytes on and shows how many there were; `what` is such as "Copying to demo", `of` all bytes if that is known */
export async function* metered<T extends Uint8Array>(
  bytes: AsyncIterable<T>,
  { what, of }: { what: string; of?: number | undefined },
  { errors, warn, write, now }: Shown,
): AsyncGenerator<T> {
  const pause = errors.isTTY ? pauses.bar : pauses.line;
  let count = 0;
  let next = now() + (errors.isTTY ? quiet : pause);
  let isDrawn = false;
  try {
    for await (const chunk of bytes) {
      count += chunk.length;
      if (now() >= next) {
        next = now() + pause;
        if (errors.isTTY) await write(errors, redrawn(`${what} ${progressOf(count, of)}`, errors.columns));
        else warn(`${what}: ${progressOf(count, of, { isBar: false })}`);
        isDrawn = errors.isTTY;
      }
      yield chunk;
    }
  } finally {
    if (isDrawn) await write(errors, redrawn(""));
  }
}

const width = 30;

/** a bar if the end is known, unless there is no place for one */
export function progressOf(bytes: number, of: number | undefined, { isBar = true } = {}): string {
  if (of === undefined) return sizeInWords(bytes);
  if (!isBar) return shareOf(bytes, of);
  const full = Math.round((of === 0 ? 1 : Math.min(1, bytes / of)) * width);
  return `[${"#".repeat(full)}${" ".repeat(width - full)}] ${shareOf(bytes, of)}`;
}

function shareOf(bytes: number, of: number): string {
  return `${Math.floor((of === 0 ? 1 : Math.min(1, bytes / of)) * 100)} % of ${sizeInWords(of)}`;
}
