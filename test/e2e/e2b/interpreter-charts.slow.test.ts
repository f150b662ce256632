/** Charts of real matplotlib figures. Slow, because matplotlib and numpy have to be installed from PyPI: 137 MB. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { tempDir } from "../../harness/harness.ts";
import { packagesOfFile } from "../../harness/pypi.ts";

const run = promisify(execFile);
const packages = packagesOfFile("matplotlib==3.11.2");
const program = join(import.meta.dirname, "../../../src/api/e2b/interpreter/program");

test("figures of matplotlib become charts with their data", async (context) => {
  const python = packages.python(context);
  const { stdout } = await run(python, ["-B", join(import.meta.dirname, "python/charts.py"), program], {
    env: { PATH: process.env.PATH, MPLCONFIGDIR: await tempDir() },
  });
  const charts = JSON.parse(stdout);
  expect(charts.line).toMatchObject({
    ...{ type: "line", title: "Lines", x_label: "Time (s)", x_unit: "s", y_label: "Speed", y_unit: null },
    ...{ x_scale: "linear", y_scale: "log", x_ticks: expect.arrayContaining([1, 2, 3]) },
    elements: [
      {
        label: "first",
        points: [
          [1, 4],
          [2, null],
          [3, 6],
        ],
      },
      {
        label: "",
        points: [
          [1, 1],
          [2, 2],
        ],
      },
    ],
  });
  expect(charts.line.x_tick_labels.length).toBe(charts.line.x_ticks.length);
  expect(charts.dates).toMatchObject({
    x_scale: "datetime",
    elements: [
      {
        points: [
          ["2026-01-01T00:00:00", 1],
          ["2026-01-02T00:00:00", 2],
        ],
      },
    ],
  });
  expect(charts.scatter).toMatchObject({
    type: "scatter",
    elements: [
      {
        label: "dots",
        points: [
          [1, 3],
          [2, 4.5],
        ],
      },
    ],
  });
  expect(charts.bar).toMatchObject({
    type: "bar",
    elements: [
      { label: "a", value: 1, group: "one" },
      { label: "b", value: 2, group: "one" },
      { label: "a", value: 3, group: "two" },
      { label: "b", value: 4, group: "two" },
    ],
  });
  expect(charts.across.elements).toMatchObject([
    { label: "up", value: 5 },
    { label: "down", value: 6 },
  ]);
  expect(charts.pie).toMatchObject({
    type: "pie",
    elements: [
      { label: "small", angle: 90, radius: 1 },
      { label: "large", angle: 270, radius: 1 },
    ],
  });
  const whole = { min: 1, first_quartile: 2.25, median: 3.5, third_quartile: 4.75, max: 5, outliers: [20] };
  expect(charts.box).toMatchObject({ type: "box_and_whisker", elements: [{ label: "A", ...whole }, { label: "B" }] });
  expect(charts.filled).toMatchObject({ elements: [{ label: "1", min: 1, median: 3, max: 5 }] });
  expect(charts.super).toMatchObject({
    type: "superchart",
    title: "Both",
    elements: [{ type: "line" }, { type: "bar" }],
  });
  expect(charts.picture).toBeNull();
});
