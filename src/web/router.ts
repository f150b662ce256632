/** The address of the page: which view it names, and its parameters. Filters and tabs are in it, so links keep them. */

import { computed, signal } from "@preact/signals";
import { isHere, root } from "./place.ts";

const address = signal(new URL(location.href));
addEventListener("popstate", () => {
  if (!isHere(location.pathname)) location.reload();
  address.value = new URL(location.href);
});

/** parts of the path below that of the project, decoded */
export const parts = computed(() => {
  const names = address.value.pathname.slice(root.length).split("/");
  return names.filter((name) => name !== "").map(decoded);
});

export function parameter(name: string): string {
  return address.value.searchParams.get(name) ?? "";
}

export function go(path: string): void {
  if (!isHere(path)) {
    location.assign(path);
    return;
  }
  history.pushState(null, "", path);
  address.value = new URL(location.href);
}

/** changes parameters of the present address; an empty value removes one */
export function setParameters(changes: Record<string, string>): void {
  const next = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") next.searchParams.delete(name);
    else next.searchParams.set(name, value);
  }
  history.replaceState(null, "", next);
  address.value = next;
}

/** follows a link of ours without loading the page again */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link === null || link.target !== "" || link.origin !== location.origin || !link.pathname.startsWith("/ui/"))
    return;
  event.preventDefault();
  go(link.pathname + link.search);
}

export function pathOf(...names: string[]): string {
  return root + names.map(encodeURIComponent).join("/");
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
