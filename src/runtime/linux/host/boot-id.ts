/** Which boot of the host this is: what was alive or only in memory in another one is gone. */

import { readFileSync } from "node:fs";

export function hostBootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
