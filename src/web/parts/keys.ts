/** Keys for the whole page. None of them works while somebody types, or in a terminal. */

import { go, pathOf } from "../router.ts";
import { paletteOpen } from "./palette.ts";

const places: Record<string, string> = {
  s: "sandboxes",
  n: "snapshots",
  i: "images",
  d: "drives",
  k: "keys",
  h: "host",
};

/** when "g" was pressed, if it was the last key */
let wentTo = Number.NEGATIVE_INFINITY;

export function listenForKeys(): () => void {
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

function pressed(event: KeyboardEvent): void {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k" && !isInTerminal(event)) {
    event.preventDefault();
    paletteOpen.value = true;
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
  const isSecond = event.timeStamp - wentTo < 1500;
  wentTo = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
  const place = isSecond ? places[event.key] : undefined;
  if (place !== undefined) {
    go(pathOf(place));
    return;
  }
  const button = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(event.key)}"]`);
  if (!button || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  if (button instanceof HTMLInputElement) button.focus();
  else button.click();
}

function isTyping({ target }: KeyboardEvent): boolean {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable], .shell") !== null;
}

function isInTerminal({ target }: KeyboardEvent): boolean {
  return target instanceof Element && target.closest(".shell") !== null;
}
