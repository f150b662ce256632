/**
 * How each probe is expected to end. A probe that is not listed must be closed, to root and to the plain user alike;
 * each exception has its reason.
 */

import type { User } from "./inside.ts";

export interface Exception {
  /** `any`: reported, not checked; `open`: must work, so that a loss is noticed too */
  ending: "open" | "any";
  /** the user it applies to; all users if missing */
  user?: User;
  why: string;
}

export const exceptions: Record<string, Exception> = {
  "oom-score-immune": {
    ending: "any",
    why: "depends on the host: where the launcher lacks CAP_SYS_RESOURCE the kernel lets a process go as low as its ancestors were",
  },
};

/** Probes that need an argument or report facts: the suites run them one by one. */
export const separate = new Set([
  "abstract-socket",
  "connect",
  "mounts-show",
  "environment",
  "processes",
  "newborn-ptrace",
]);
