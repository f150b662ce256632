/**
 * An egress log as a table for people. Programs in a sandbox chose its text, so control characters are made visible.
 */

import { sizeInWords } from "../../base/size-in-words.ts";
import type { Output } from "../../client/types.ts";
import { plain } from "./plain.ts";
import { cut, fitted } from "./table.ts";

type Page = Output<"readEgressLog">;
/** A line of the log as the daemon sends it; some stand for missing lines. */
export type EgressEvent = Page["events"][number];
export type EgressHost = Page["hosts"][number];
export type EgressPort = Page["ports"][number];
type Traffic = Omit<EgressHost, "host">;

/** "cmd_" and eight digits: two commands of a session rarely begin alike */
const idLength = 12;

/** the kernel's limit for a program's name */
const longestProgram = 15;

/** columns for a reason or rule on a terminal */
const longestWhy = 40;

/** the line of titles; `columns` is the width of the terminal, if it is one */
export function eventHeader(columns?: number): string {
  return row(["TIME", "VERDICT", "WHERE", "WHAT", "IN", "OUT", "WHO", "WHY"], columns);
}

export function eventRow(event: EgressEvent, columns?: number): string {
  const time = timeOf(event.at);
  if (event.dropped !== undefined)
    return row([time, "unseen", `${event.dropped} decisions, too many at once`], columns);
  if (event.forgotten !== undefined)
    return row([time, "unseen", `${event.forgotten} lines that are no longer kept`], columns);
  const { allowed, rule, reason, failure, ended = 0, bytesIn = 0, bytesOut = 0, count = 0 } = event;
  // A line without a decision reports the end of connections that were decided before.
  const verdict = count === 0 ? "closed" : allowed ? (failure === undefined ? "allowed" : "failed") : "denied";
  const bytes = ended > 0 ? [sizeInWords(bytesIn), sizeInWords(bytesOut)] : ["", ""];
  const why = (allowed ? (failure ?? rule) : reason) ?? "";
  return row([time, verdict, whereOf(event), whatOf(event), ...bytes, whoOf(event), why], columns);
}

export function hostTable(hosts: EgressHost[]): string[] {
  return trafficTable(
    "HOST",
    hosts.map(({ host, ...traffic }) => [plain(host), traffic]),
  );
}

export function portTable(ports: EgressPort[]): string[] {
  return trafficTable(
    "PORT",
    ports.map(({ port, ...traffic }) => [String(port), traffic]),
  );
}

function trafficTable(title: string, rows: [name: string, Traffic][]): string[] {
  if (rows.length === 0) return [];
  const longest = Math.max(...rows.map(([name]) => name.length), title.length);
  const line = (cells: string[]) =>
    cells
      .map((cell, at) => (at === 0 ? cell.padEnd(longest) : cell.padStart(12)))
      .join("  ")
      .trimEnd();
  return [
    line([title, "CONNECTIONS", "IN", "OUT"]),
    ...rows.map(([name, { connections, bytesIn, bytesOut }]) =>
      line([name, String(connections), sizeInWords(bytesIn), sizeInWords(bytesOut)]),
    ),
  ];
}

function whereOf({ name, address = "", port }: EgressEvent): string {
  const host = name ?? (address.includes(":") ? `[${address}]` : address);
  return port === undefined ? host : `${host}:${port}`;
}

function whatOf({ protocol = "", type, method, path = "", status, count = 0 }: EgressEvent): string {
  const what = method === undefined ? [protocol, type] : [method, path, status];
  return [...what, count > 1 && `×${count}`].filter((part) => part !== undefined && part !== false).join(" ");
}

/** shows the beginning of a command's id; --json has all of it */
function whoOf({ command, program }: EgressEvent): string {
  return [program, command?.slice(0, idLength)].filter((part) => part !== undefined).join(" ");
}

/** in the local time zone */
function timeOf(at: number): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const time = new Date(at);
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}

/** fixed widths, since lines come one by one; on a terminal, cells are cut so that a line fits */
function row(cells: string[], columns?: number): string {
  const widths = [19, 7, 28, 20, 9, 9, longestProgram + 1 + idLength, columns === undefined ? 0 : longestWhy];
  const shown = columns === undefined ? widths : fitted(widths, columns);
  const line = cells
    .slice(0, shown.length)
    .map((cell, at) => {
      const text = plain(cell);
      const width = shown[at] ?? 0;
      // A line with fewer cells goes on where they would be.
      const isLast = at === cells.length - 1;
      return (columns === undefined || isLast ? text : cut(text, width)).padEnd(width);
    })
    .join("  ")
    .trimEnd();
  return columns === undefined ? line : cut(line, columns);
}
