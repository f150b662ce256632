/** The pages that have no place in a phone's bar. */

import { html } from "../html.ts";
import { signOut } from "../session.ts";
import { Dialog } from "./dialog.ts";
import { RailLink, visiblePages } from "./frame.ts";
import { moreOpen } from "./open-parts.ts";
import { PlaceSwitch, Whose } from "./place-switch.ts";

export function More({ page }: { page: string }) {
  const close = () => {
    moreOpen.value = false;
  };
  const chosen = ({ target }: MouseEvent) => target instanceof Element && target.closest("a, button") && close();
  return html`<${Dialog} title="More" close=${close}>
    <div class="crumbs"><${PlaceSwitch} /><${Whose} /></div>
    <nav class="more" aria-label="More pages" onClick=${chosen}>
      ${visiblePages().map((each) => !each.isMain && html`<${RailLink} each=${each} page=${page} />`)}
      <button type="button" onClick=${() => void signOut()}>Sign out</button>
    </nav>
  <//>`;
}
