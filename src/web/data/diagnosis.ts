/** What the doctor found on the host, for pages that only say how much: examined once for all pages of a tab, now and then. */

import { signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { client, isAdmin } from "../session.ts";

type Finding = Output<"getDiagnosis">["findings"][number];

const place = "sandkeep.doctor";
/** an examination takes the daemon a second or more, so its result is used again for this time, in ms */
const longest = 600_000;

/** the findings that need a look; undefined until they are known, and for a key that may not ask */
export const wrong = signal<readonly Finding[] | undefined>(undefined);

export function keepWrong(findings: readonly Finding[]): void {
  wrong.value = findings.filter(({ state }) => state !== "ok");
  sessionStorage.setItem(place, JSON.stringify({ at: Date.now(), findings: wrong.value }));
}

export async function examine(): Promise<void> {
  if (!isAdmin() || wrong.value) return;
  const kept = read();
  if (kept && Date.now() - kept.at < longest) {
    wrong.value = kept.findings;
    return;
  }
  try {
    keepWrong((await client.call("getDiagnosis")).findings);
  } catch {
    // The page of the doctor says why there is no answer.
  }
}

function read(): { at: number; findings: Finding[] } | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(place) ?? "null") ?? undefined; // only this file writes it
  } catch {
    return undefined;
  }
}
