/** Reads files that another version of Sandkeep may have written; a newer format gives a clear error. */

import { SandkeepError } from "../../../core/model/errors.ts";
import { NewerFormat } from "../../../protocols/newer-format.ts";

export function readFormat<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof NewerFormat) throw new SandkeepError("conflict", error.message);
    throw error;
  }
}
