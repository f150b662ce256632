/** Identifies the current boot of the host: processes and memory of earlier boots are gone. */

import { readFileSync } from "node:fs";

export function hostBootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
