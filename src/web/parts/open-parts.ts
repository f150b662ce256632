/** Which parts that float over a page are open. Apart from the parts themselves, which load when they are first opened. */

import { signal } from "@preact/signals";

export const paletteOpen = signal(false);
/** the pages that have no place in a phone's bar */
export const moreOpen = signal(false);
