/**
 * Tables for people: columns as wide as their cells, cut where the terminal ends. Control characters are made visible,
 * since programs in a sandbox choose some of the texts.
 */

import { styleText } from "node:util";
import type { CommandContext } from "../command.ts";
import { plain } from "./plain.ts";

/** What a table is printed on. */
export interface Paper {
  /** width of the terminal; undefined if it is unknown or the output is not one, and nothing is cut */
  columns?: number | undefined;
  colours: boolean;
}

type Colour = "green" | "yellow" | "red" | "dim";
export type Cell = string | { text: string; colour: Colour };

const gap = "  ";
/** a column is not cut below this */
const narrowest = 6;

export function paperOf(output: NodeJS.WriteStream, environment: NodeJS.ProcessEnv): Paper {
  if (!output.isTTY) return { colours: false };
  // A terminal that was never given a size says 0.
  return { columns: output.columns || undefined, colours: !environment.NO_COLOR && environment.TERM !== "dumb" };
}

/** prints a table on standard output */
export function printTable(
  titles: string[],
  rows: Cell[][],
  { output, environment, print }: Pick<CommandContext, "output" | "environment" | "print">,
): void {
  for (const line of table(titles, rows, paperOf(output, environment))) print(line);
}

export function table(titles: string[], rows: Cell[][], { columns, colours }: Paper): string[] {
  const cells = [titles, ...rows].map((row) => row.map(parts));
  const natural = titles.map((_, at) => Math.max(...cells.map((row) => widthOf(row[at]?.text ?? ""))));
  const widths = columns === undefined ? natural : fitted(natural, columns);
  return cells.map((row) => {
    const last = widths.length - 1;
    return row
      .slice(0, widths.length)
      .map(({ text, colour }, at) => {
        const shown = cut(text, widths[at] ?? 0);
        const blanks = at === last ? "" : " ".repeat(Math.max(0, (widths[at] ?? 0) - widthOf(shown)));
        return (colours && colour ? styleText(colour, shown, { validateStream: false }) : shown) + blanks;
      })
      .join(gap)
      .trimEnd();
  });
}

/** narrows the widest columns until the row fits; if no column can be narrower, leaves out the last ones */
export function fitted(natural: number[], columns: number): number[] {
  const widths = [...natural];
  const total = () => widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1));
  while (total() > columns) {
    const widest = Math.max(...widths);
    if (widest > narrowest) widths[widths.lastIndexOf(widest)] = widest - 1;
    else if (widths.length > 1) widths.pop();
    else return [Math.max(1, columns)];
  }
  // Those that stay may have the room of those that went.
  if (widths.length === natural.length) return widths;
  return fitted(natural.slice(0, widths.length), columns);
}

function parts(cell: Cell): { text: string; colour?: Colour } {
  return typeof cell === "string" ? { text: plain(cell) } : { ...cell, text: plain(cell.text) };
}

export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let shown = "";
  for (const sign of text) {
    if (widthOf(shown + sign) > width - 1) break;
    shown += sign;
  }
  return `${shown}…`;
}

/** columns of a terminal that a text takes */
function widthOf(text: string): number {
  let width = 0;
  for (const sign of text) width += /\p{M}/u.test(sign) ? 0 : wide.test(sign) ? 2 : 1;
  return width;
}

/** signs that take two columns: those of East Asia, and pictures */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

/** how long ago, or for how long, in one unit: 45s, 12m, 3h, 9d */
export function briefly(duration: number): string {
  const seconds = Math.max(0, Math.floor(duration / 1000));
  if (seconds < 100) return `${seconds}s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

const colours: Record<string, Colour> = { running: "green", failed: "red", aborted: "red", stopped: "dim" };

/** a sandbox's state with its colour */
export function stateCell(state: string): Cell {
  return { text: state, colour: colours[state] ?? "yellow" };
}
