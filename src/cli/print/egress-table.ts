/**
 * An egress log as a table for people. Programs in a sandbox chose its text, so control characters are made visible.
 */

import { sizeInWords } from "../../base/size-in-words.ts";
import { plain } from "./plain.ts";

/** A line of the log as the daemon sends it; some stand for missing lines. */
export interface EgressEvent {
  id: number;
  at: number;
  dropped?: number;
  forgotten?: number;
  protocol?: string;
  name?: string;
  address?: string;
  port?: number;
  method?: string;
  path?: string;
  status?: number;
  type?: string;
  allowed?: boolean;
  reason?: string;
  failure?: string;
  rule?: string;
  command?: string;
  program?: string;
  count?: number;
  ended?: number;
  bytesIn?: number;
  bytesOut?: number;
}

interface Traffic {
  connections: number;
  bytesIn: number;
  bytesOut: number;
}

export interface EgressHost extends Traffic {
  host: string;
}

export interface EgressPort extends Traffic {
  port: number;
}

/** "cmd_" and eight digits: two commands of a session rarely begin alike */
const idLength = 12;

/** the kernel's limit for a program's name */
const longestProgram = 15;

export const eventHeader = row(["TIME", "VERDICT", "WHERE", "WHAT", "IN", "OUT", "WHO", "WHY"]);

export function eventRow(event: EgressEvent): string {
  const time = timeOf(event.at);
  if (event.dropped !== undefined) return row([time, "unseen", `${event.dropped} decisions, too many at once`]);
  if (event.forgotten !== undefined) return row([time, "unseen", `${event.forgotten} lines that are no longer kept`]);
  const { allowed, rule, reason, failure, ended = 0, bytesIn = 0, bytesOut = 0, count = 0 } = event;
  // A line without a decision reports the end of connections that were decided before.
  const verdict = count === 0 ? "closed" : allowed ? (failure === undefined ? "allowed" : "failed") : "denied";
  const bytes = ended > 0 ? [sizeInWords(bytesIn), sizeInWords(bytesOut)] : ["", ""];
  return row([
    time,
    verdict,
    whereOf(event),
    whatOf(event),
    ...bytes,
    whoOf(event),
    (allowed ? (failure ?? rule) : reason) ?? "",
  ]);
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

/** fixed widths: lines come one by one, so a column cannot adapt to its longest cell */
function row(cells: string[]): string {
  const widths = [19, 7, 28, 20, 9, 9, longestProgram + 1 + idLength, 0];
  return cells
    .map((cell, at) => plain(cell).padEnd(widths[at] ?? 0))
    .join("  ")
    .trimEnd();
}
