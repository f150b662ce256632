/** A network policy as lines: what people read and change, and what differs between two of them. */

import type { Sandbox } from "../data/live.ts";

export type Policy = Sandbox["networkPolicy"];

/** "allow-all", "deny-all", or one name, range or "!" with a denied range a line */
export function linesOf({ mode, domains, allowedCidrs, deniedCidrs }: Policy): string[] {
  if (mode !== "custom") return [mode];
  return [...domains.map(({ domain }) => domain), ...allowedCidrs, ...deniedCidrs.map((range) => `!${range}`)];
}

/** the lines of a text, without empty ones and repetitions */
export function linesIn(text: string): string[] {
  const lines = text.split(/[\n,]/).map((line) => line.trim().toLowerCase());
  return [...new Set(lines.filter((line) => line !== ""))];
}

/** the policy of some lines, as requests say it; no line allows nothing */
export function policyText(lines: readonly string[]): string {
  return lines.length === 0 ? "deny-all" : lines.join(", ");
}

/** Whether rules of requests belong to a domain. Answers leave out what they add, so nobody can write them back. */
export function hasRules({ domains }: Policy): boolean {
  return domains.some(({ rules }) => rules.length > 0);
}

export interface LineChange {
  line: string;
  change: "kept" | "added" | "removed";
}

/** those that stay, then those that go, then those that come */
export function changesOf(before: readonly string[], after: readonly string[]): LineChange[] {
  return [
    ...before.map((line): LineChange => ({ line, change: after.includes(line) ? "kept" : "removed" })),
    ...after.filter((line) => !before.includes(line)).map((line): LineChange => ({ line, change: "added" })),
  ].toSorted((one, other) => order[one.change] - order[other.change]);
}

const order = { kept: 0, removed: 1, added: 2 };

/** a rule of a domain in words */
export function ruleWords({ kind, headerNames = [], url, status }: Policy["domains"][number]["rules"][number]): string {
  if (kind === "forward") return `requests go to ${url}`;
  if (kind === "respond") return `requests are answered with ${status}`;
  return `requests get ${headerNames.join(", ")}`;
}
