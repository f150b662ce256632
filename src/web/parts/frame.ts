/** What surrounds every page: the bar at the top, the rail of pages, notices, and the foot. */

import { useEffect, useLayoutEffect } from "preact/hooks";
import { names, now } from "../data/live.ts";
import { refusals, watchRefusals } from "../egress/refusals.ts";
import { html } from "../html.ts";
import { type Page, pages } from "../pages/pages.ts";
import { follow, parts, pathOf } from "../router.ts";
import { away, isAdmin, noStanding, signOut } from "../session.ts";
import { span, visible } from "../text.ts";
import { notice, pending } from "./acts.ts";
import { Icon } from "./icon.ts";
import { helpOpen, listenForKeys } from "./keys.ts";
import { Lazy, usePrepared } from "./lazy.ts";
import { moreOpen, paletteOpen } from "./open-parts.ts";

const Palette = Lazy(async () => (await import("./palette.ts")).Palette, true);
const Foot = Lazy(async () => (await import("./foot.ts")).Foot, true);
const PlaceSwitch = Lazy(async () => (await import("./place-switch.ts")).PlaceSwitch, true);
const Whose = Lazy(async () => (await import("./place-switch.ts")).Whose, true);
const More = Lazy(async () => (await import("./more.ts")).More, true);
const RailCount = Lazy(async () => (await import("./rail-count.ts")).RailCount, true);
const Help = Lazy(async () => (await import("./help.ts")).Help);

export function Frame() {
  useLayoutEffect(listenForKeys, []);
  usePrepared(Palette);
  useEffect(watchRefusals, []);
  const [page = "overview", thing] = parts.value;
  const found = pages.find(({ path }) => path === page);
  const title = found?.title ?? "Not found";
  useEffect(() => {
    document.title = `${visible(thing ?? title)} · Sandkeep`;
  }, [thing, title]);
  return html`<div class="app" onClick=${follow}>
    <header class="top">
      <a class="brand" href=${pathOf()} aria-label="Sandkeep, first page"><${Logo} /><span>Sandkeep</span></a>
      <nav class="crumbs" aria-label="Place"><${PlaceSwitch} />
        ${
          thing === undefined
            ? html`<b>${title}</b>`
            : html`<a href=${pathOf(page)}>${title}</a><i aria-hidden="true">/</i><b>${visible(thing)}</b>`
        }
      </nav>
      <button type="button" class="omni" onClick=${openPalette}><${Icon} name="search" /> Go to, or do… <kbd>Ctrl K</kbd></button>
      <${Live} />
      <${Whose} />
      <button type="button" class="who" onClick=${() => void signOut()}>Sign out</button>
    </header>
    <nav class="rail" aria-label="Pages">${visiblePages().map((each) => html`<${RailLink} each=${each} page=${page} />`)}</nav>
    <main class="main" tabindex="-1">
      <${Notice} />
      ${noStanding.value !== "" ? html`<${NoPlace} />` : found ? html`<${found.view} name=${thing} />` : html`<h1 class="unseen">Not found</h1><p class="empty">There is no such page. <a href=${pathOf("sandboxes")}>All sandboxes</a></p>`}
    </main>
    <${Foot} isSandbox=${thing !== undefined} />
    <nav class="bottom" aria-label="Main pages">
      ${visiblePages().map((each) => each.isMain && html`<${RailLink} each=${each} page=${page} />`)}
      <button type="button" onClick=${openPalette}><${Icon} name="search" />Find</button>
      <button type="button" onClick=${openMore}><${Icon} name="more" />More</button>
    </nav>
    ${paletteOpen.value && html`<${Palette} />`}
    ${helpOpen.value && html`<${Help} />`}
    ${moreOpen.value && html`<${More} page=${page} />`}
  </div>`;
}

/** in place of a page of a project that the key may not see, or that does not exist */
function NoPlace() {
  return html`<h1 class="unseen">Not here</h1>
    <p class="empty" role="alert"><span class="problem">${noStanding.value}</span> <a href="/ui/">Go to your own project</a></p>`;
}

export function visiblePages(): Page[] {
  return pages.filter(({ isForAdmins }) => !isForAdmins || isAdmin());
}

export function RailLink({ each: { path, title, icon, startsGroup }, page }: { each: Page; page: string }) {
  return html`<a href=${pathOf(path)} class=${startsGroup ? "group" : undefined} aria-current=${path === page ? "page" : undefined}>
    <${Icon} name=${icon} /><span>${title}</span>${path === "sandboxes" && html`<em>${names.value.length}</em>`}<${RailCount} path=${path} />${
      path === "egress" &&
      refusals.value.size > 0 &&
      html`<em class="fail">${refusals.value.size}<span class="unseen">${
        refusals.value.size === 1 ? " sandbox was refused" : " sandboxes were refused"
      }</span></em>`
    }
  </a>`;
}

function openPalette() {
  paletteOpen.value = true;
}

function openMore() {
  moreOpen.value = true;
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
