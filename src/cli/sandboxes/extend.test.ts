/** Refusals of `sandkeep extend`. */

import { expect, test } from "vitest";
import { Refusal } from "../errors.ts";
import { inDurations } from "./extend.ts";

test("a limit is said in the units of durations", () => {
  const said = (text: string) => inDurations(new Refusal(`Cannot extend "k": ${text}`, 400));
  const message = (text: string) => ({ message: `Cannot extend "k": the duration should be ${text}` });
  expect(said("`duration` should be <= 86400000.")).toMatchObject(message("at most 1d."));
  expect(said("`duration` should be >= 1000.")).toMatchObject(message("at least 1s."));
});
