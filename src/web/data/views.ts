/** The views of the list of sandboxes: filters with a name, ours and those that somebody has saved in this browser. */

import { computed, signal } from "@preact/signals";
import { refusals } from "../egress/refusals.ts";
import { everything } from "./live.ts";
import { filterOf } from "./query.ts";

export interface View {
  title: string;
  query: string;
  count: number;
  /** whether somebody saved it, and may forget it */
  isOwn: boolean;
}

const place = "sandkeep.views";
const mostOwn = 12;

const usual = [
  { title: "All", query: "" },
  { title: "Running", query: "state:running" },
  { title: "Failed", query: "state:failed,aborted" },
  { title: "Refused egress", query: "is:refused" },
  { title: "Ending soon", query: "ends:<15m" },
  { title: "New in 6 h", query: "created:<6h" },
];

const own = signal<readonly string[]>(read());

export const views = computed((): View[] =>
  [
    ...usual.map((each) => ({ ...each, isOwn: false })),
    ...own.value.map((query) => ({ title: query, query, isOwn: true })),
  ].map((each) => ({ ...each, count: countOf(each.query) })),
);

export function addView(query: string): void {
  keep([...own.value.filter((each) => each !== query), query].slice(-mostOwn));
}

export function removeView(query: string): void {
  keep(own.value.filter((each) => each !== query));
}

function countOf(query: string): number {
  const all = everything.value;
  return query === "" ? all.length : all.filter(filterOf(query, Date.now(), refusals.value)).length;
}

function keep(queries: readonly string[]): void {
  localStorage.setItem(place, JSON.stringify(queries));
  own.value = queries;
}

function read(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(place) ?? "[]");
    return Array.isArray(stored) ? stored.filter((each) => typeof each === "string").slice(0, mostOwn) : [];
  } catch {
    return [];
  }
}
