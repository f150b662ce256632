/**
 * How each probe is expected to end. What is not listed must be closed, to root and to the plain user alike; each
 * exception has its reason.
 */

import type { User } from "./inside.ts";

export interface Exception {
  /** `any`: told, not judged; `open`: wanted, so that its loss is noticed too */
  ending: "open" | "any";
  /** whom it concerns; everybody when missing */
  user?: User;
  why: string;
}

export const exceptions: Record<string, Exception> = {
  "oom-score-immune": {
    ending: "any",
    why: "depends on the host: where the launcher lacks CAP_SYS_RESOURCE the kernel lets a process go as low as its ancestors were",
  },
};

/** Probes that need an argument or tell facts: the suites run them one by one. */
export const separate = new Set([
  "abstract-socket",
  "connect",
  "mounts-show",
  "environment",
  "processes",
  "newborn-ptrace",
]);
