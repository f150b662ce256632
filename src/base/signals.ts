/** The numbers of signals by the names that people write. */

import { constants } from "node:os";

/** the C library uses the first two of the kernel's real-time signals itself */
const firstRealTime = 34;
const lastRealTime = 64;

/** of a signal such as SIGINT, INT, 2 or SIGRTMIN+3; undefined for what is none */
export function signalNumber(text: string): number | undefined {
  const name = text.toUpperCase().replace(/^SIG/, "");
  const [, sign, offset] = /^RTM(?:IN(\+)|AX-)(\d{1,2})$/.exec(name) ?? [];
  let number: number | undefined;
  if (offset !== undefined) number = sign === "+" ? firstRealTime + Number(offset) : lastRealTime - Number(offset);
  else if (/^\d{1,2}$/.test(name)) number = Number(name);
  // The names are those of NodeJS.Signals; others have no entry.
  else number = (constants.signals as Partial<Record<string, number>>)[`SIG${name}`];
  return number !== undefined && number >= 1 && number <= lastRealTime ? number : undefined;
}
