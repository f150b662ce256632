/** Keys for the whole page. None of them works while somebody types, or in a terminal; people can turn all of them off. */

import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { go, pathOf } from "../router.ts";
import { paletteOpen } from "./open-parts.ts";

export const places: Record<string, string> = {
  o: "overview",
  s: "sandboxes",
  n: "snapshots",
  i: "images",
  d: "drives",
  e: "egress",
  u: "usage",
  k: "keys",
  v: "events",
  a: "audit",
  h: "doctor",
};

const off = "sandkeep.keys-off";

/** whether single keys do something */
export const keysOn = signal(localStorage.getItem(off) === null);
export const helpOpen = signal(false);

export function turnKeys(on: boolean): void {
  if (on) localStorage.removeItem(off);
  else localStorage.setItem(off, "1");
  keysOn.value = on;
}

type Bindings = Record<string, () => void>;
const bound: Bindings[] = [];

/** what keys do while a view is shown */
export function useKeys(bindings: Bindings): void {
  // Before the view is seen: people may press a key at once.
  useLayoutEffect(() => {
    bound.push(bindings);
    return () => void bound.splice(bound.indexOf(bindings), 1);
  });
}

/** when "g" was pressed, if it was the last key */
let wentTo = Number.NEGATIVE_INFINITY;

export function listenForKeys(): () => void {
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

function pressed(event: KeyboardEvent): void {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k" && !isIn(event, ".shell")) {
    event.preventDefault();
    paletteOpen.value = true;
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey || !keysOn.value) return;
  if (isIn(event, "input:not([type=checkbox]), textarea, select, [contenteditable], .shell, dialog, [popover]")) return;
  const isSecond = event.timeStamp - wentTo < 1500;
  wentTo = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
  const place = isSecond ? places[event.key] : undefined;
  if (place !== undefined) go(pathOf(place));
  else if (!act(event)) return;
  event.preventDefault();
}

function act(event: KeyboardEvent): boolean {
  const { key } = event;
  // The palette may still load.
  if (paletteOpen.value || document.querySelector("dialog[open]")) return false;
  if (key === "?") {
    helpOpen.value = true;
    return true;
  }
  // A focused control has its own meaning for these.
  if ((key === "Enter" || key === " ") && isIn(event, "a, button, input, summary, [role=tab]")) return false;
  const binding = bound.findLast((each) => key in each)?.[key];
  if (binding) {
    binding();
    return true;
  }
  const control = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
  if (!control) return false;
  if (control instanceof HTMLInputElement) control.focus();
  else control.click();
  return true;
}

function isIn({ target }: KeyboardEvent, selector: string): boolean {
  return target instanceof Element && target.closest(selector) !== null;
}
