/** The list of sandboxes as it is shown: filtered and sorted by the address, which rows are selected, where the keys are. */

import { computed, signal } from "@preact/signals";
import { refusals } from "../egress/refusals.ts";
import { parameter } from "../router.ts";
import { trafficOf } from "./activity.ts";
import { everything, known, type Sandbox } from "./live.ts";
import { filterOf } from "./query.ts";

/** names of the selected sandboxes */
export const chosen = signal<ReadonlySet<string>>(new Set());
/** name of the sandbox whose row the keys act on */
export const cursor = signal("");

/** the selected sandboxes that still exist */
export const selected = computed(() => [...chosen.value].filter((name) => known(name)));

export type SortKey = keyof typeof sorts;

const sorts = {
  age: (a: Sandbox, b: Sandbox) => b.createdAt - a.createdAt,
  name: (a: Sandbox, b: Sandbox) => a.name.localeCompare(b.name),
  image: (a: Sandbox, b: Sandbox) => (a.image ?? "").localeCompare(b.image ?? ""),
  ends: (a: Sandbox, b: Sandbox) => (a.session.expiresAt ?? Infinity) - (b.session.expiresAt ?? Infinity),
  size: (a: Sandbox, b: Sandbox) => b.memory - a.memory,
  refused: (a: Sandbox, b: Sandbox) => (refusals.value.get(b.name) ?? 0) - (refusals.value.get(a.name) ?? 0),
  net: (a: Sandbox, b: Sandbox) => trafficOf(b).bytesIn - trafficOf(a).bytesIn,
};

/** what the address asks for, and whether it is turned round; "-name" for the latter */
export function sortOf(text: string): { key: SortKey; isTurned: boolean } {
  const key = text.replace(/^-/, "");
  return { key: Object.hasOwn(sorts, key) ? (key as SortKey) : "age", isTurned: text.startsWith("-") };
}

export const found = computed((): readonly Sandbox[] => {
  const [query, { key, isTurned }] = [parameter("q"), sortOf(parameter("sort"))];
  const all = everything.value;
  const kept = query === "" ? all : all.filter(filterOf(query, Date.now(), refusals.value));
  if (key === "age" && !isTurned) return kept;
  const sorted = kept.toSorted(sorts[key]);
  return isTurned ? sorted.reverse() : sorted;
});

export function toggle(name: string): void {
  const next = new Set(chosen.value);
  if (!next.delete(name)) next.add(name);
  chosen.value = next;
}

/** the sandbox before or after another one in the list */
export function neighbour(name: string, step: number): string | undefined {
  const names = found.value.map((each) => each.name);
  const at = names.indexOf(name);
  return names[at < 0 ? 0 : Math.min(names.length - 1, Math.max(0, at + step))];
}
