/**
 * Loaded into a daemon before its own code: replaces the host's boot id with the content of the file $CHAOS_BOOT_ID.
 */

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const read = fs.readFileSync;
const { CHAOS_BOOT_ID = "" } = process.env;
const instead = (path: unknown) => (path === "/proc/sys/kernel/random/boot_id" ? CHAOS_BOOT_ID : path);
Object.assign(fs, {
  readFileSync: (path: unknown, ...options: unknown[]) => Reflect.apply(read, fs, [instead(path), ...options]),
});
syncBuiltinESMExports();
