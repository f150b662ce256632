/** A button that changes something. With a key that may only read it is disabled, and says why. */

import type { ComponentChildren } from "preact";
import { html } from "../html.ts";
import { whyReadOnly } from "../session.ts";

interface ActButtonProps {
  /** undefined for a button that submits its form */
  act?: () => unknown;
  kind?: string;
  /** the key that presses it */
  hotkey?: string;
  label?: string;
  isOff?: boolean;
  children: ComponentChildren;
}

export function ActButton({ act, kind, hotkey, label, isOff = false, children }: ActButtonProps) {
  const why = whyReadOnly();
  return html`<button
    type=${act ? "button" : "submit"} class=${kind} data-key=${hotkey} aria-label=${label} title=${why} disabled=${isOff || why !== undefined}
    onClick=${act && (() => void act())}
  >${children}</button>`;
}
