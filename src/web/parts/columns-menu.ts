/** The menu of the list's columns, in a popover of the page: a box to tick for each that the window can show. */

import { choices, chooseColumn, forgetColumns, possibleColumns, shownColumns } from "../data/column-choice.ts";
import { html } from "../html.ts";

export function ColumnsMenu() {
  const shown = new Set(shownColumns.value.map(({ id }) => id));
  // The first one gets the focus when the popover opens.
  return html`${possibleColumns.value.map(
    (
      { id, title },
      at,
    ) => html`<label class="check" key=${id}><input type="checkbox" autofocus=${at === 0} checked=${shown.has(id)}
      onChange=${() => chooseColumn(id, !shown.has(id))} /> ${title}</label>`,
  )}
  <button type="button" class="small" disabled=${Object.keys(choices.value).length === 0} onClick=${forgetColumns}>Usual columns</button>`;
}
