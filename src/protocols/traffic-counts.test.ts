/** Bytes by host and by port: counts are read as they were written, and damaged and newer files are told apart. */

import { expect, test } from "vitest";
import { readTrafficCounts, trafficCountsVersion, writeTrafficCounts } from "./traffic-counts.ts";

test("counts are read as they were written, whatever the name of a host", () => {
  const counts = { bytesIn: 5120, bytesOut: 840, count: 2 };
  const all = { "api.test": counts, "3000": counts, v: counts, "(others)": { bytesIn: 0, bytesOut: 0, count: 0 } };
  expect(readTrafficCounts(writeTrafficCounts(all))).toEqual(all);
});

test("an empty file, or one with other content, gives no counts", () => {
  for (const text of ["", "{", "[]", "null", '{"a":1}', '{"a":{"bytesIn":-1,"bytesOut":0,"count":0}}']) {
    expect(readTrafficCounts(text)).toEqual({});
  }
});

test("a file of a newer version is refused with a clear error", () => {
  expect(() => readTrafficCounts(`{"v":${trafficCountsVersion + 1}}`)).toThrow(
    /^Cannot read how many bytes went where: its format is version 2, and this version of Sandkeep knows only 1$/,
  );
});
