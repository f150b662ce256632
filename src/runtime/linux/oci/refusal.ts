/** The error for an image that cannot be imported as it is. */

import { SandkeepError } from "../../../core/model/errors.ts";

export function refusal(why: string, cause?: unknown): SandkeepError {
  return new SandkeepError("invalid", `Cannot import the image: ${why}`, { cause });
}
