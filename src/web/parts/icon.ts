/** Small drawings beside words. They say nothing alone, so readers of the screen skip them. */

import { html } from "../html.ts";

/** lines in a square of 16 */
const shapes = {
  overview: "M2.6 12.5a6.2 6.2 0 1 1 10.8 0M8 9.5l2.8-3.4",
  sandbox: "M8 1.6l5.6 3.1v6.6L8 14.4l-5.6-3.1V4.7zM2.6 4.9L8 7.8l5.4-2.9M8 7.8v6.4",
  snapshot: "M1.7 5.2h2.8L5.7 3h4.6l1.2 2.2h2.8v7.6H1.7zM8 11a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 8 11z",
  image: "M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3",
  drive: "M2 9l2-5.6h8L14 9v3.8H2zM2 9h12M4.6 11h.01M7 11h.01",
  egress:
    "M8 1.7a6.3 6.3 0 1 0 0 12.6A6.3 6.3 0 0 0 8 1.7zM1.7 8h12.6M8 1.7c3.6 3.8 3.6 8.8 0 12.6-3.6-3.8-3.6-8.8 0-12.6z",
  usage: "M1.5 8.5h3L6.4 3l3.2 10 1.9-4.5h3",
  key: "M10.2 2.3a3.5 3.5 0 1 1-2.5 6L2.6 13.4M4.4 11.6l1.7 1.7M11 5h.01",
  audit: "M3.8 1.7h8.4v12.6H3.8zM6.2 5h3.6M6.2 8h3.6M6.2 11h2",
  events: "M5.5 3.7h8.7M5.5 8h8.7M5.5 12.3h8.7M2.2 3.7h.01M2.2 8h.01M2.2 12.3h.01",
  doctor: "M8 13.8L2.9 8.7a3.3 3.3 0 0 1 5.1-4.1 3.3 3.3 0 0 1 5.1 4.1z",
  search: "M7 2.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.6zM10.6 10.6l3.4 3.4",
  plus: "M8 3.2v9.6M3.2 8h9.6",
  fork: "M4 2.2a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2zM12 2.2a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2zM8 10.6a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2zM4 5.4v2.3h8V5.4M8 7.7v2.9",
  stop: "M3.4 3.4h9.2v9.2H3.4z",
  resume: "M4.5 2.8l8 5.2-8 5.2z",
  clock: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM8 4.6V8l2.4 1.6",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  split: "M2 2.7h12v10.6H2zM8 2.7v10.6",
  columns: "M2 2.7h12v10.6H2zM6 2.7v10.6M10 2.7v10.6",
  copy: "M5.6 5.6h8v8h-8zM3.2 10.4h-.8v-8h8v.8",
  warning: "M8 2.2l6.2 11H1.8zM8 6.4v3.2M8 11.5h.01",
  refused: "M8 1.9a6.1 6.1 0 1 0 0 12.2A6.1 6.1 0 0 0 8 1.9zM3.7 3.7l8.6 8.6",
};

export type IconName = keyof typeof shapes;

export function Icon({ name }: { name: IconName }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${shapes[name]} /></svg>`;
}
