/**
 * Limits the informational answers (1xx) that come before the answer to one request. A server may send as many as it
 * wants, nothing holds them back, and each costs the time of all machines and room for a program that does not read.
 */

import { mostInformational } from "../../base/informational-answers.ts";
import type { TimeShare } from "../fairness/turns.ts";
import type { Header } from "./headers.ts";
import { longestHead } from "./http1-client.ts";
import { Unreachable } from "./upstream.ts";

export interface Interim {
  /** charges for one; returns whether it is within the limit */
  take(headers: readonly Header[]): boolean;
}

/** bytes of all their headers: no more than the answer itself may have */
const mostBytes = longestHead;
/** approximate cost of reading one and passing it on, in µs */
const interimCost = 40;

export function newInterim(share: TimeShare): Interim {
  let count = 0;
  let bytes = 0;
  return {
    take(headers) {
      share.spend(interimCost);
      count++;
      // The limit may be passed by thousands in one read, which are counted and no more.
      if (count > mostInformational) return false;
      for (const [name, value] of headers) bytes += name.length + value.length;
      return bytes <= mostBytes;
    },
  };
}

export function tooManyInterim(host: string): Unreachable {
  return new Unreachable(
    `Cannot pass on the answer of "${host}": more than ${mostInformational} informational answers (1xx), or ${mostBytes >> 10} KiB of them, came before it`,
  );
}
