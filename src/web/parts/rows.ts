/** A table of any length: only the rows that can be seen, and a few around them, are in the document. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.ts";

export interface Head {
  title: string;
  column: string;
  isUnseen?: boolean;
  /** sorts the rows, if people can */
  sort?: () => void;
  sorted?: "ascending" | "descending" | undefined;
}

interface RowsProps<T> {
  label: string;
  heads: readonly Head[];
  items: readonly T[];
  keyOf: (item: T) => string;
  row: (item: T) => ComponentChildren;
  /** what is said where there is no row */
  none?: string | undefined;
  /** the row that the keyboard is at, which is scrolled into view */
  at?: number | undefined;
  /** called with the rows that are in the document, whenever they change */
  seen?: (items: readonly T[]) => void;
  /** a name for styles of this table alone */
  kind?: string;
  /** pixels below which the table scrolls sideways */
  least?: number;
  /** called when the pointer enters and leaves the rows */
  hovered?: (isHovered: boolean) => void;
}

/** rows above and below the visible ones */
const margin = 12;

export function Rows<T>({
  label,
  heads,
  items,
  keyOf,
  row,
  none,
  at,
  kind = "",
  least = 0,
  seen: tell,
  hovered,
}: RowsProps<T>) {
  const place = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(28);
  const [[top, seen], setWindow] = useState<[number, number]>([0, 800]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const measure = () => {
      const first = element.querySelector("tbody tr[data-row]");
      if (first) setHeight(Math.max(20, first.getBoundingClientRect().height));
      setWindow([element.scrollTop, element.clientHeight]);
    };
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [items.length === 0]);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element || at === undefined || at < 0) return;
    // The heads cover one row at the top.
    if (at * height < element.scrollTop) element.scrollTop = at * height;
    const bottom = (at + 2) * height - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
  }, [at]);
  const first = Math.max(0, Math.floor(top / height) - margin);
  const last = Math.min(items.length, Math.ceil((top + seen) / height) + margin);
  const shown = items.slice(first, last);
  useEffect(() => tell?.(shown), [shown.map(keyOf).join("\n")]);
  const scrolled = () => {
    const element = place.current;
    if (element) setWindow([element.scrollTop, element.clientHeight]);
  };
  return html`<div class=${`rows ${kind}`.trim()} ref=${place} onScroll=${scrolled} tabindex="0" role="region" aria-label=${label}>
    <table style=${{ minWidth: `${least}px` }} aria-rowcount=${items.length + 1} onPointerEnter=${() => hovered?.(true)} onPointerLeave=${() => hovered?.(false)}>
      <thead><tr>${heads.map((each) => html`<${HeadCell} head=${each} />`)}</tr></thead>
      ${first > 0 && html`<tbody aria-hidden="true"><tr style=${{ height: `${first * height}px` }}></tr></tbody>`}
      <tbody>${shown.map((item) => html`<${Keyed} key=${keyOf(item)}>${row(item)}<//>`)}</tbody>
      ${
        last < items.length &&
        html`<tbody aria-hidden="true"><tr style=${{ height: `${(items.length - last) * height}px` }}></tr></tbody>`
      }
    </table>
    ${none !== undefined && items.length === 0 && html`<p class="empty">${none}</p>`}
  </div>`;
}

function HeadCell({ head: { title, column, isUnseen, sort, sorted } }: { head: Head }) {
  const words = isUnseen ? html`<span class="unseen">${title}</span>` : title;
  return html`<th scope="col" class=${column} aria-sort=${sorted}>
    ${sort ? html`<button type="button" class="sort" onClick=${sort}>${words}</button>` : words}
  </th>`;
}

function Keyed({ children }: { children: ComponentChildren }) {
  return children;
}
