/**
 * Clears away what a run of tests leaves behind. Vitest starts it with a pipe that closes when Vitest ends, however it
 * ends: by itself, with Ctrl-C or by SIGKILL.
 */

import { rmSync } from "node:fs";
import { text } from "node:stream/consumers";
import { clearLeftovers } from "./leftovers.ts";

const [run] = process.argv.slice(2);
if (run === undefined) throw new Error("Cannot clear anything: name the folder of the run");
await text(process.stdin);
const left = await clearLeftovers(run);
rmSync(run, { recursive: true, force: true });
if (left.length > 0) console.error(`The tests left something that cannot be removed: ${left.join(", ")}`);
