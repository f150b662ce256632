/** The errors that callers get when an operation failed because of the store of all sandboxes. */

import type { Components } from "../components.ts";
import { ofClosedStore, ofFailedStore } from "../guest-wire/failure.ts";

/** why machines end when the file system below them has failed */
export function lossOf(store: string): string {
  return `The store "${store}" became read-only, or lost what it could not write`;
}

/** a clear error if the store has failed or was unmounted; otherwise the error as it is */
export function storeError({ isClosed, health, room }: Components, error: unknown, what: string): unknown {
  const shortage = () => room?.shortage();
  if (isClosed) return ofClosedStore(error, shortage());
  return ofFailedStore(error, what, { isReadOnly: () => health.hasFailed, shortage });
}
