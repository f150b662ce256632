/** The template tag of all views: markup that becomes elements, never a string of HTML. */

import htm from "htm";
import { h } from "preact";

// Its types describe a CommonJS module, but browsers get the function itself.
export const html = (htm as unknown as typeof htm.default).bind(h);
