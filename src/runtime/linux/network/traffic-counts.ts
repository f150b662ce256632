/** Reads files with bytes and connections by host or by port (src/protocols/traffic-counts.ts has the format). */

import { constants } from "node:fs";
import { readFile } from "node:fs/promises";
import { readTrafficCounts, type TrafficCounts } from "../../../protocols/traffic-counts.ts";
import { isMissing } from "../storage/json-file.ts";
import { readFormat } from "../storage/read-format.ts";

/** opens without following links: the egress process writes some of the files, and is not trusted */
const plainly = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export async function readCounts(path: string): Promise<Record<string, TrafficCounts>> {
  try {
    const text = await readFile(path, { encoding: "utf8", flag: plainly });
    return readFormat(() => readTrafficCounts(text));
  } catch (error) {
    if (isMissing(error)) return {};
    throw error;
  }
}
