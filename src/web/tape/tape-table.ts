/** A tape as a table, for people who cannot see the drawing: the same things, newest first. */

import type { History } from "../data/history.ts";
import { html } from "../html.ts";
import { clock, counted, line, span as time, visible } from "../text.ts";
import { commandBars, processorPoints } from "./tape-lanes.ts";
import { type Stretch, touches } from "./tape-scale.ts";

interface Row {
  at: number;
  lane: string;
  what: string;
  /** ms that it lasted */
  for: number;
}

const mostRows = 200;

export function TapeTable({ value, stretch }: { value: History; stretch: Stretch | undefined }) {
  const rows = rowsOf(value)
    .filter((row) => touches(stretch, row.at, row.at + row.for))
    .toSorted((a, b) => b.at - a.at);
  const rest = rows.length - mostRows;
  return html`<table><thead><tr><th scope="col">Time</th><th scope="col">Lane</th><th scope="col">What</th><th scope="col">Lasted</th></tr></thead>
    <tbody>${rows
      .slice(0, mostRows)
      .map(
        (row) =>
          html`<tr><td class="mono">${clock(row.at)}</td><td>${row.lane}</td><td class="mono">${visible(row.what)}</td><td class="mono">${row.for > 0 ? time(row.for) : ""}</td></tr>`,
      )}</tbody></table>
    ${rest > 0 && html`<p class="note">${counted(rest, "earlier row is", "earlier rows are")} left out. Drag over the tape, or use the arrows on it, to choose a shorter time.</p>`}`;
}

function rowsOf({ sessions, commands, tape, totals }: History): Row[] {
  const { snapshots, buckets, step, to } = tape;
  return [
    ...sessions.map((each) => {
      const at = each.startedAt ?? each.createdAt;
      return { at, lane: "session", what: `${each.id}, ${each.state}`, for: (each.endedAt ?? to) - at };
    }),
    ...snapshots.map((each) => ({ at: each.createdAt, lane: "snapshot", what: each.name ?? each.id, for: 0 })),
    ...commandBars(tape, commands, commands.length >= totals.commands).map(({ from, to: end, kind, command }) => ({
      at: from,
      lane: "command",
      what: command
        ? `${line(command.command, command.args)}, ${command.exitCode === null ? "runs" : `exited with ${command.exitCode}`}`
        : `commands ran${kind === "denied" ? ", some failed" : ""}`,
      for: end - from,
    })),
    ...buckets.flatMap(({ at, egress: { allowed, refused } }) => [
      ...(refused > 0 ? [{ at, lane: "refused", what: counted(refused, "connection"), for: step }] : []),
      ...(allowed > 0 ? [{ at, lane: "connection", what: counted(allowed, "connection"), for: step }] : []),
    ]),
    ...sessions.flatMap(({ startedAt, createdAt, endedAt, vcpus }) => {
      const from = startedAt ?? createdAt;
      const points = processorPoints(tape, { from, to: endedAt ?? to });
      if (points.length === 0) return [];
      const what = `at most ${Math.max(...points.map(({ value }) => value)).toFixed(1)} of ${vcpus} processors`;
      return [{ at: from, lane: "cpu", what, for: (points.at(-1)?.at ?? from) - from }];
    }),
  ];
}
