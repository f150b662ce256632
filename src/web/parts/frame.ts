/** What surrounds every page: the bar at the top, the rail of pages, notices, and the foot. */

import { useEffect } from "preact/hooks";
import { names, now, running } from "../data/live.ts";
import { html } from "../html.ts";
import { pages } from "../pages/pages.ts";
import { follow, parts, pathOf } from "../router.ts";
import { away, signOut, visitor } from "../session.ts";
import { span, visible } from "../text.ts";
import { notice, pending } from "./acts.ts";
import { listenForKeys } from "./keys.ts";
import { Palette, paletteOpen } from "./palette.ts";

export function Frame() {
  useEffect(listenForKeys, []);
  const [page = "sandboxes", thing] = parts.value;
  const found = pages.find(({ path }) => path === page);
  const title = found?.title ?? "Not found";
  useEffect(() => {
    document.title = `${visible(thing ?? title)} · Sandkeep`;
  }, [thing, title]);
  return html`<div class="app" onClick=${follow}>
    <header class="top">
      <a class="brand" href="/ui/" aria-label="Sandkeep, first page"><${Logo} /><span>Sandkeep</span></a>
      <nav class="crumbs" aria-label="Place">
        ${
          thing === undefined
            ? html`<b>${title}</b>`
            : html`<a href=${pathOf(page)}>${title}</a><i aria-hidden="true">/</i><b>${visible(thing)}</b>`
        }
      </nav>
      <button type="button" class="omni" onClick=${openPalette}>Go to, or do… <kbd>Ctrl K</kbd></button>
      <${Live} />
      <button type="button" class="who" onClick=${() => void signOut()}>Sign out</button>
    </header>
    <nav class="rail" aria-label="Pages">
      ${pages.map(
        ({ path, title: name, isForAdmins }) =>
          (!isForAdmins || isAdmin()) &&
          html`<a href=${pathOf(path)} aria-current=${path === page ? "page" : undefined}>
            ${name}${path === "sandboxes" && html`<span class="count">${names.value.length}</span>`}
          </a>`,
      )}
    </nav>
    <main class="main" tabindex="-1">
      <${Notice} />
      ${found ? html`<${found.view} name=${thing} />` : html`<p class="empty">There is no such page.</p>`}
    </main>
    <footer class="foot"><span>${running.value} running</span><span>${names.value.length} sandboxes</span></footer>
    <${Palette} />
  </div>`;
}

function openPalette() {
  paletteOpen.value = true;
}

function isAdmin(): boolean {
  const who = visitor.value;
  return who !== undefined && who !== "unknown" && who.admin;
}

function Live() {
  const since = away.value;
  return since === undefined
    ? html`<span class="live" role="status">${pending.value > 0 ? "working" : "live"}</span>`
    : html`<span class="live off" role="status">no answer for ${span(now.value - since)}</span>`;
}

function Notice() {
  if (notice.value === undefined) return null;
  const { text, isProblem } = notice.value;
  const close = () => {
    notice.value = undefined;
  };
  return html`<div class=${isProblem ? "notice problem" : "notice"} role=${isProblem ? "alert" : "status"}>
    <span>${visible(text)}</span><button type="button" onClick=${close}>Close</button>
  </div>`;
}

export function Logo() {
  return html`<svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
    <path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4M6 6h4v4H6z" />
  </svg>`;
}
