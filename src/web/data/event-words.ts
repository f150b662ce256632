/** An event in words: what its type does not say, and the ids that a program would ask for. */

import type { Change } from "./live.ts";

/** members that say where an event belongs, which the page shows elsewhere, and those that `eventWords` has words for */
const known = new Set(["type", "at", "cursor", "sandbox", "projectId", "exitCode", "name", "reason", "cause"]);

/** what an event says besides its type and its sandbox; empty if that is all */
export function eventWords(event: Change): string {
  const { name, exitCode, reason, cause } = event;
  const words = [
    ...(name === undefined ? [] : [String(name)]),
    ...(typeof exitCode === "number" ? [`exited with ${exitCode}`] : []),
    ...(reason || cause ? [String(reason || cause)] : []),
    ...Object.entries(event)
      .filter(([member, value]) => !known.has(member) && !isId(member) && value !== null)
      .map(([member, value]) =>
        member === "drive" || member === "path" ? String(value) : `${member} ${String(value)}`,
      ),
  ];
  return words.join(" · ");
}

/** the ids in an event, as the API calls them; that of the sandbox is on its page */
export function eventIds(event: Change): string {
  return Object.entries(event)
    .filter(([member]) => isId(member) && member !== "sandboxId" && member !== "projectId")
    .map(([, value]) => String(value))
    .join(" ");
}

function isId(member: string): boolean {
  return member.endsWith("Id");
}
