/** The columns of the list of sandboxes besides the name, and which of them a window shows. */

import type { SortKey } from "./selection.ts";

export type ColumnId = "image" | "ends" | "cpu" | "memory" | "net" | "refused" | "command" | "made" | "age";

export interface Column {
  id: ColumnId;
  title: string;
  /** the width that its cells need, in pixels */
  least: number;
  sort?: SortKey;
  /** whether its cells are numbers */
  isNumber?: boolean;
}

/** in the order of the table */
export const columns: readonly Column[] = [
  { id: "image", title: "Image", least: 80, sort: "image" },
  { id: "ends", title: "Ends in", least: 124, sort: "ends" },
  { id: "cpu", title: "CPU 10 min", least: 120 },
  { id: "memory", title: "Memory", least: 124, sort: "size" },
  { id: "net", title: "Net in / out", least: 148, sort: "net", isNumber: true },
  { id: "refused", title: "Refused", least: 64, sort: "refused", isNumber: true },
  { id: "command", title: "Last command", least: 98 },
  { id: "made", title: "Made over", least: 76 },
  { id: "age", title: "Age", least: 76, sort: "age", isNumber: true },
];

/** by column, what somebody has chosen: shown or hidden; the rest is up to the window */
export type Choices = Partial<Record<ColumnId, boolean>>;

/** widest window in which a row has two lines and not columns, in pixels */
const widestPhone = 720;
/** what the lines of a phone have room for */
const onPhones: readonly ColumnId[] = ["ends", "refused", "command", "age"];
/** the columns that a narrow window does without, the first one first */
const optional: readonly ColumnId[] = ["net", "made", "image", "cpu", "memory", "refused"];
/** pixels of the rail, which is beside the table */
const rail = 168;
/** pixels of the boxes for selecting, and of a name */
const besides = 238;

export function isPhoneWidth(width: number): boolean {
  return width <= widestPhone;
}

/** those that people can choose from */
export function columnsFor(width: number): readonly Column[] {
  return isPhoneWidth(width) ? columns.filter(({ id }) => onPhones.includes(id)) : columns;
}

/** those that are shown; more than fit if somebody wants so */
export function shownIn(width: number, choices: Choices): readonly Column[] {
  const usual = usualIn(width);
  return columnsFor(width).filter(({ id }) => choices[id] ?? usual.includes(id));
}

/** pixels that the table needs with these columns */
export function leastWidth(shown: readonly Column[]): number {
  return shown.reduce((sum, { least }) => sum + least, besides);
}

function usualIn(width: number): readonly ColumnId[] {
  if (isPhoneWidth(width)) return onPhones;
  let shown = columns;
  for (const gone of optional) {
    if (leastWidth(shown) <= width - rail) break;
    shown = shown.filter(({ id }) => id !== gone);
  }
  return shown.map(({ id }) => id);
}

/** choices as they were stored; whatever else is there counts as none */
export function choicesOf(stored: string): Choices {
  try {
    const parsed: unknown = JSON.parse(stored);
    if (typeof parsed !== "object" || parsed === null) return {};
    const entries = Object.entries(parsed).filter(
      ([id, value]) => typeof value === "boolean" && columns.some((column) => column.id === id),
    );
    return Object.fromEntries(entries);
  } catch {
    return {};
  }
}
