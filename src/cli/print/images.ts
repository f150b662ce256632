/** How commands print images: the table of `sandkeep image ls`, the JSON of `inspect`, and the lines of `history`. */

import { sizeInWords } from "../../base/size-in-words.ts";
import { shown } from "./shown.ts";
import { briefly, type Paper, table } from "./table.ts";

export interface ImageRow {
  name: string;
  /** whose image it is; "-" for the host's */
  team: string;
  layers: number;
  /** bytes */
  size: { total: number; shared: number; own: number };
  /** in ms */
  createdAt: number;
}

/** a table of the images; `now` in ms */
export function imageTable(rows: ImageRow[], paper: Paper, now: number): string[] {
  const cells = rows.map(({ name, team, layers, size: { total, shared, own }, createdAt }) => {
    const sizes = [sizeInWords(total), shared > 0 ? sizeInWords(shared) : "-", sizeInWords(own)];
    return [name, team, String(layers), ...sizes, briefly(now - createdAt)];
  });
  return table(["NAME", "TEAM", "LAYERS", "SIZE", "SHARED", "OWN", "AGE"], cells, paper);
}

/** JSON itself escapes only the ASCII control characters */
export function shownJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(/[\x7f-\x9f\p{Cf}\u2028\u2029]/gu, (sign) =>
    JSON.stringify(sign).slice(1, -1) === sign ? escaped(sign) : sign,
  );
}

interface Step {
  createdBy: string;
  comment?: string | null | undefined;
  /** in ms */
  createdAt?: number | null | undefined;
  isEmpty?: boolean | undefined;
}

/**
 * The steps that made an image, newest first, with the size of each step's layer if the image has layers of its own.
 * `layers` are undefined if it has none.
 */
export function historyLines(steps: Step[], layers: { diffId: string; size: number }[] | undefined): string[] {
  const parts = [...(layers ?? [])];
  // Some tools write no history, or fewer steps than layers.
  if (layers && steps.filter(({ isEmpty }) => !isEmpty).length !== parts.length) {
    return parts.map(({ diffId, size }) => `${sizeInWords(size)}  sha256:${diffId}`).reverse();
  }
  const lines = steps.map(({ createdBy, comment, createdAt, isEmpty }) => {
    const when = typeof createdAt === "number" ? new Date(createdAt).toISOString() : "unknown time";
    // The daemon's own builds keep no size for each step.
    const size = isEmpty ? sizeInWords(0) : layers ? sizeInWords(parts.shift()?.size ?? 0) : "-";
    return `${when}  ${size}  ${shown(createdBy)}${comment ? `  # ${shown(comment, 80)}` : ""}`;
  });
  return lines.reverse();
}

function escaped(sign: string): string {
  return [...sign]
    .flatMap((each) => each.split(""))
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
