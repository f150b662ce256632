/** Tests of tables: their columns, how they fit a terminal, their colours, and hostile texts. */

import { expect, test } from "vitest";
import { briefly, paperOf, stateCell, table } from "./table.ts";

const wide = { colours: false };

test("columns are as wide as their longest cell, and lines end without blanks", () => {
  expect(
    table(
      ["NAME", "STATE"],
      [
        ["a-long-name", "running"],
        ["b", ""],
      ],
      wide,
    ),
  ).toEqual(["NAME         STATE", "a-long-name  running", "b"]);
});

test("a table that is wider than the terminal has its widest columns cut", () => {
  const rows = [["short", "x".repeat(50), "y".repeat(20)]];
  const lines = table(["NAME", "PROGRAM", "WHERE"], rows, { columns: 40, colours: false });
  expect(lines[1]).toBe(`short  ${"x".repeat(15)}…  ${"y".repeat(14)}…`);
  for (const columns of [20, 1]) {
    const [, row = ""] = table(["A", "B", "C"], rows, { columns, colours: false });
    expect(row.length).toBeLessThanOrEqual(22);
  }
});

test.each([20, 40, 80, 200])(
  "a table fits a terminal of %d columns; the last columns go if no other way is left",
  (columns) => {
    const titles = ["NAME", "STATE", "IMAGE", "CPUS", "MEMORY", "AGE", "ENDS IN", "PORTS"];
    const row = [
      "sandbox-35jg595ed0de",
      "snapshotting",
      "registry.example.com/app:1",
      "2",
      "4 GiB",
      "12m",
      "4m",
      "3000",
    ];
    const lines = table(titles, [row], { columns, colours: false });
    for (const line of lines) expect([...line].length, line).toBeLessThanOrEqual(columns);
    expect(lines[0]).toMatch(columns === 20 ? /^NAME +STATE$/ : columns === 40 ? /^NAME .*CPUS/ : /PORTS$/);
  },
);

test("signs of two columns count as two", () => {
  expect(
    table(
      ["NAME", "X"],
      [
        ["日本", "1"],
        ["🙂é", "2"],
      ],
      wide,
    ),
  ).toEqual(["NAME  X", "日本  1", "🙂é   2"]);
});

test("no text of a program reaches the terminal as a control character", () => {
  expect(table(["A"], [["\u001b[2J\r\n"]], wide)[1]).toBe("\\u001b[2J\\u000d\\u000a");
});

test("colours are for terminals only, unless they are unwanted", () => {
  expect(table(["S"], [[stateCell("running")]], { colours: true })[1]).toBe("\u001b[32mrunning\u001b[39m");
  expect(table(["S"], [[stateCell("running")]], wide)[1]).toBe("running");
  const terminal = { isTTY: true, columns: 80 } as NodeJS.WriteStream;
  expect(paperOf(terminal, {})).toEqual({ columns: 80, colours: true });
  expect(paperOf(terminal, { NO_COLOR: "1" })).toEqual({ columns: 80, colours: false });
  expect(paperOf({ isTTY: false } as NodeJS.WriteStream, {})).toEqual({ colours: false });
});

test("nothing is cut on a terminal whose size is unknown", () => {
  const paper = paperOf({ isTTY: true, columns: 0 } as NodeJS.WriteStream, { NO_COLOR: "1" });
  const row = ["a-long-name", "x".repeat(200)];
  expect(table(["NAME", "PROGRAM"], [row], paper)[1]).toBe(row.join("  "));
});

test("durations are brief", () => {
  const s = 1000;
  expect([0, 99 * s, 100 * s, 5999 * s, 6000 * s, 172_800 * s, -5].map(briefly)).toEqual([
    "0s",
    "99s",
    "1m",
    "99m",
    "1h",
    "2d",
    "0s",
  ]);
});
