/**
 * Files with bytes and connections by host or by port. They are replaced several times a second and never flushed, so a
 * host that lost its power may leave one without content: what was counted is then gone, and nothing else.
 */

import { constants } from "node:fs";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { TrafficCounts } from "../../../core/network/egress-log.ts";
import { isMissing } from "../storage/json-file.ts";

/** the egress process writes some of them, which is not to be trusted with where a link leads */
const plainly = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const counted = z.int().nonnegative();
const schema = z.record(z.string(), z.object({ bytesIn: counted, bytesOut: counted, count: counted }));

export async function readCounts(path: string): Promise<Record<string, TrafficCounts>> {
  try {
    return schema.parse(JSON.parse(await readFile(path, { encoding: "utf8", flag: plainly })));
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError || error instanceof z.ZodError) return {};
    throw error;
  }
}
