/**
 * Answers before the answer (1xx), such as "103 Early Hints". Node's client reads them as fast as they come and has no
 * limit of its own: a server that sends nothing else would keep the whole process busy.
 */

import type { ClientRequest } from "node:http";

/** of one request: "continue", hints and a few reports of progress; servers in use send fewer */
export const mostInformational = 16;

/** ends the request with an error if the server sends more of them */
export function limitInformational(request: ClientRequest): void {
  let count = 0;
  request.on("information", () => {
    if (++count > mostInformational)
      request.destroy(new Error(`it sent more than ${mostInformational} informational answers`));
  });
}
