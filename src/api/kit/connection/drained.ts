/** Waits for a slow client after a write that Node could not send at once. */

import type { ServerResponse } from "node:http";

/** resolves when the client has read what was written, or is gone */
export function drained(outgoing: ServerResponse): Promise<void> {
  // Node's response for HTTP/2 does not say whether it waits for its reader: there the event comes in any case.
  if (outgoing.destroyed || outgoing.writableNeedDrain === false) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done);
      outgoing.off("close", done);
      resolve();
    };
    outgoing.on("drain", done);
    outgoing.on("close", done);
  });
}
