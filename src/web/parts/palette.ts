/** The palette: goes to a page or a sandbox by a part of its name. */

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { names } from "../data/live.ts";
import { html } from "../html.ts";
import { pages } from "../pages/pages.ts";
import { go, pathOf } from "../router.ts";
import { Dialog } from "./dialog.ts";

export const paletteOpen = signal(false);
const most = 12;

export function Palette() {
  return paletteOpen.value ? html`<${Finder} />` : null;
}

function Finder() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const close = () => {
    paletteOpen.value = false;
  };
  const wanted = text.toLowerCase();
  const found = [
    ...pages.map(({ path, title }) => ({ label: title, kind: "page", to: pathOf(path) })),
    ...names.value.map((name) => ({ label: name, kind: "sandbox", to: pathOf("sandboxes", name) })),
  ]
    .filter(({ label }) => label.toLowerCase().includes(wanted))
    .slice(0, most);
  const open = (to: string | undefined) => {
    if (to === undefined) return;
    close();
    go(to);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setChosen((chosen + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[chosen]?.to);
    }
  };
  return html`<${Dialog} title="Go to" close=${close}>
    <input
      class="find" role="combobox" aria-expanded="true" aria-controls="found" aria-label="Page or sandbox"
      aria-activedescendant=${found.length > 0 ? `found-${chosen}` : undefined}
      value=${text} onKeyDown=${pressed}
      onInput=${(event: InputEvent) => {
        setText((event.target as HTMLInputElement).value);
        setChosen(0);
      }}
    />
    <ul id="found" role="listbox" aria-label="Found">
      ${found.map(
        ({ label, kind, to }, at) => html`<li
          id=${`found-${at}`} role="option" aria-selected=${at === chosen ? "true" : "false"} onClick=${() => open(to)}
        >${label}<span>${kind}</span></li>`,
      )}
    </ul>
  <//>`;
}
