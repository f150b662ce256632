/** Bytes by host and by port: what is written is read, and what is damaged or newer is told apart. */

import { expect, test } from "vitest";
import { readTrafficCounts, trafficCountsVersion, writeTrafficCounts } from "./traffic-counts.ts";

test("counts are read as they were written, whatever a host is called", () => {
  const counts = { bytesIn: 5120, bytesOut: 840, count: 2 };
  const all = { "api.test": counts, "3000": counts, v: counts, "(others)": { bytesIn: 0, bytesOut: 0, count: 0 } };
  expect(readTrafficCounts(writeTrafficCounts(all))).toEqual(all);
});

test("a file without content, or with another, has counted nothing", () => {
  for (const text of ["", "{", "[]", "null", '{"a":1}', '{"a":{"bytesIn":-1,"bytesOut":0,"count":0}}']) {
    expect(readTrafficCounts(text)).toEqual({});
  }
});

test("a file of a newer version is refused in a sentence", () => {
  expect(() => readTrafficCounts(`{"v":${trafficCountsVersion + 1}}`)).toThrow(
    /^Cannot read how many bytes went where: its format is version 2, and this version of Sandkeep knows only 1$/,
  );
});
