/** How commands print images: the table of `sandkeep image ls`, the JSON of `inspect`, and the steps of `history`. */

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

/** A step of the history that an image records. */
interface Step {
  createdBy: string;
  comment?: string | null | undefined;
  /** in ms */
  createdAt?: number | null | undefined;
  isEmpty?: boolean | undefined;
}

type Layers = { diffId: string; size: number }[];

/** A step as it is shown, or a layer of an image that records no steps. */
interface ShownStep {
  createdAt?: string | undefined;
  /** bytes; the daemon's own builds keep none for each step */
  size?: number | undefined;
  createdBy?: string;
  comment?: string | undefined;
  layer?: string;
}

/**
 * The steps that made an image, newest first, with the size of each step's layer if the image has layers of its own.
 * `layers` are undefined if it has none.
 */
export function historyLines(steps: Step[], layers: Layers | undefined): string[] {
  return shownSteps(steps, layers).map(({ createdAt, size, createdBy, comment, layer }) => {
    const bytes = size === undefined ? "-" : sizeInWords(size);
    if (createdBy === undefined) return `${bytes}  ${layer}`;
    return `${createdAt ?? "unknown time"}  ${bytes}  ${shown(createdBy)}${comment ? `  # ${shown(comment, 80)}` : ""}`;
  });
}

/** the same as JSON, with whole texts */
export function historyJson(steps: Step[], layers: Layers | undefined): string {
  return shownJson(shownSteps(steps, layers));
}

function shownSteps(steps: Step[], layers: Layers | undefined): ShownStep[] {
  const parts = [...(layers ?? [])];
  // Some tools write no history, or fewer steps than layers.
  if (layers && steps.filter(({ isEmpty }) => !isEmpty).length !== parts.length) {
    return parts.map(({ diffId, size }) => ({ size, layer: `sha256:${diffId}` })).reverse();
  }
  const made = steps.map(({ createdBy, comment, createdAt, isEmpty }) => {
    const when = typeof createdAt === "number" ? new Date(createdAt).toISOString() : undefined;
    const size = isEmpty ? 0 : layers ? (parts.shift()?.size ?? 0) : undefined;
    return { createdAt: when, size, createdBy, comment: comment ?? undefined };
  });
  return made.reverse();
}

function escaped(sign: string): string {
  return [...sign]
    .flatMap((each) => each.split(""))
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
