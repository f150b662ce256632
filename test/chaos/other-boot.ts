/** Loaded into a daemon before its own code: it takes what the file $CHAOS_BOOT_ID says for the host's boot id. */

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const read = fs.readFileSync;
const { CHAOS_BOOT_ID = "" } = process.env;
const instead = (path: unknown) => (path === "/proc/sys/kernel/random/boot_id" ? CHAOS_BOOT_ID : path);
Object.assign(fs, {
  readFileSync: (path: unknown, ...options: unknown[]) => Reflect.apply(read, fs, [instead(path), ...options]),
});
syncBuiltinESMExports();
