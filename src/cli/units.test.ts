/** Tests of the values of options: what each takes, and what its error says. */

import { expect, test } from "vitest";
import { bytesOf, durationInWords, durationOf, memoryOf, numberOf, portOf, variablesOf } from "./units.ts";

test("durations have a unit", () => {
  expect(["250ms", "90s", "5m", "12h", "7d"].map((text) => durationOf("--timeout", text))).toEqual([
    250, 90_000, 300_000, 43_200_000, 604_800_000,
  ]);
  for (const text of ["", "5", "0s", "-1s", "1.5h", "5 m", "1w"])
    expect(() => durationOf("--timeout", text)).toThrow(
      `Cannot use --timeout "${text}": it must be a duration such as 90s, 5m, 12h or 7d`,
    );
});

test("durations are written as they are read", () => {
  for (const text of ["250ms", "90s", "5m", "36h", "7d"]) {
    expect(durationInWords(durationOf("--timeout", text))).toBe(text);
  }
  expect(durationInWords(3_600_000)).toBe("1h");
});

test("sizes count MiB without a unit", () => {
  expect(["512", "512m", "2g", "1.5GiB", "1GB"].map((text) => memoryOf("--memory", text))).toEqual([
    512, 512, 2048, 1536, 1024,
  ]);
  expect(bytesOf("--size", "4k")).toBe(4096);
  for (const text of ["", "0", "lots", "-5m", "1x"])
    expect(() => memoryOf("--memory", text)).toThrow(`Cannot use --memory "${text}": it must be a size`);
  expect(() => memoryOf("--memory", "1k")).toThrow('Cannot use --memory "1k": it must be at least 1m');
});

test("a variable without a value has the one that it has here", () => {
  const environment = { HOME: "/root" };
  expect(variablesOf(["A=b=c", "EMPTY=", "LINES=1\n2", "HOME"], environment)).toEqual({
    A: "b=c",
    EMPTY: "",
    LINES: "1\n2",
    HOME: "/root",
  });
  expect(() => variablesOf(["NONE"], environment)).toThrow('Cannot use --env "NONE": no variable of this name');
  expect(() => variablesOf(["=x"], environment)).toThrow('Cannot use --env "=x": it must be NAME=value, or NAME');
});

test("ports and numbers are checked", () => {
  expect([portOf("1"), portOf("65535"), numberOf("--cpus", "0.5")]).toEqual([1, 65_535, 0.5]);
  for (const text of ["0", "65536", "http", "80:80"]) expect(() => portOf(text)).toThrow(`Cannot use port "${text}"`);
  expect(() => numberOf("--cpus", "two")).toThrow('Cannot use --cpus "two": it must be a number');
});
