/** The columns that the list of sandboxes shows in this window, and what somebody has chosen in this browser. */

import { computed, signal } from "@preact/signals";
import { type Choices, type ColumnId, choicesOf, columnsFor, isPhoneWidth, shownIn } from "./columns.ts";

const place = "sandkeep.columns";

const width = signal(innerWidth);
addEventListener("resize", () => {
  width.value = innerWidth;
});

export const choices = signal<Choices>(choicesOf(localStorage.getItem(place) ?? ""));
/** whether a row has two lines and not columns */
export const isPhone = computed(() => isPhoneWidth(width.value));
export const possibleColumns = computed(() => columnsFor(width.value));
export const shownColumns = computed(() => shownIn(width.value, choices.value));

export function chooseColumn(id: ColumnId, isShown: boolean): void {
  choices.value = { ...choices.value, [id]: isShown };
  localStorage.setItem(place, JSON.stringify(choices.value));
}

/** leaves the choice to the window again */
export function forgetColumns(): void {
  choices.value = {};
  localStorage.removeItem(place);
}
