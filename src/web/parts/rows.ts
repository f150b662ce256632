/** A table of any length: only the rows that can be seen, and a few around them, are in the document. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.ts";

export interface Head {
  title: string;
  column: string;
  isUnseen?: boolean;
}

interface RowsProps<T> {
  label: string;
  heads: readonly Head[];
  items: readonly T[];
  keyOf: (item: T) => string;
  row: (item: T) => ComponentChildren;
}

/** rows above and below the visible ones */
const margin = 12;

export function Rows<T>({ label, heads, items, keyOf, row }: RowsProps<T>) {
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
  const first = Math.max(0, Math.floor(top / height) - margin);
  const last = Math.min(items.length, Math.ceil((top + seen) / height) + margin);
  const scrolled = () => {
    const element = place.current;
    if (element) setWindow([element.scrollTop, element.clientHeight]);
  };
  return html`<div class="rows" ref=${place} onScroll=${scrolled} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${items.length + 1}>
      <thead><tr>
        ${heads.map(
          ({ title, column, isUnseen }) =>
            html`<th scope="col" class=${column}>${isUnseen ? html`<span class="unseen">${title}</span>` : title}</th>`,
        )}
      </tr></thead>
      ${first > 0 && html`<tbody aria-hidden="true"><tr style=${{ height: `${first * height}px` }}></tr></tbody>`}
      <tbody>${items.slice(first, last).map((item) => html`<${Keyed} key=${keyOf(item)}>${row(item)}<//>`)}</tbody>
      ${
        last < items.length &&
        html`<tbody aria-hidden="true"><tr style=${{ height: `${(items.length - last) * height}px` }}></tr></tbody>`
      }
    </table>
  </div>`;
}

function Keyed({ children }: { children: ComponentChildren }) {
  return children;
}
