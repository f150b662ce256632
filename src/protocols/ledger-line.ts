/**
 * A line of the ledger, in which the runtime records everything on the host before it makes it. A later daemon, perhaps
 * of another version, reads it.
 *
 *   {"make":[{"kind":"mount","name":"/run/…"},…]}     is about to be made
 *   {"gone":[{"kind":"mount","name":"/run/…"},…]}     no longer exists
 *
 * A number at "v" is the version of the format, 1 where there is none.
 */

import { z } from "zod";
import { parsedJson } from "./json-text.ts";
import { checkVersion } from "./newer-format.ts";

export const ledgerVersion = 1;

/** Something that this runtime has made on the host. */
export interface HostResource {
  kind: "cgroup" | "mount" | "directory" | "socket" | "namespace";
  name: string;
}

export interface LedgerLine {
  make?: HostResource[];
  gone?: HostResource[];
}

const resources = z.array(
  z.object({ kind: z.enum(["cgroup", "mount", "directory", "socket", "namespace"]), name: z.string() }),
);
const schema: z.ZodType<LedgerLine> = z.object({ make: resources.exactOptional(), gone: resources.exactOptional() });

/** includes the line break */
export function writeLedgerLine(line: LedgerLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** undefined for an unreadable line; throws NewerFormat */
export function readLedgerLine(written: string): LedgerLine | undefined {
  const value = parsedJson(written);
  checkVersion("the ledger of what is on the host", value, ledgerVersion);
  return schema.safeParse(value).data;
}
