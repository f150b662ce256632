/**
 * Answers before the answer (1xx), such as "103 Early Hints". Node's client reads them as fast as they come and has no
 * limit of its own: a server that sends nothing else would keep the whole process busy.
 */

import type { ClientRequest } from "node:http";

/** more than any server has a reason to send */
const most = 16;

/** ends the request with an error if the server sends more of them */
export function limitInformational(request: ClientRequest): void {
  let count = 0;
  request.on("information", () => {
    if (++count > most) request.destroy(new Error(`it sent more than ${most} informational answers`));
  });
}
