/** Tests of the warnings about variables that are not settings. */

import { expect, test } from "vitest";
import { settings } from "./config.ts";
import { unknownSettings } from "./unknown-settings.ts";

test("a variable that is no setting is named, with the setting that was meant", () => {
  expect(unknownSettings({ SANDKEEP_EGRES_ALLOW: "10.0.0.0/8", SANDKEEP_FROBNICATE: "1", PATH: "/bin" })).toEqual([
    "Ignoring SANDKEEP_EGRES_ALLOW: there is no such setting. Did you mean SANDKEEP_EGRESS_ALLOW?",
    "Ignoring SANDKEEP_FROBNICATE: there is no such setting",
  ]);
  expect(unknownSettings({ SANDKEEP_BOGUS: "1" })).toEqual(["Ignoring SANDKEEP_BOGUS: there is no such setting"]);
});

test("no setting is unknown, nor what clients read", () => {
  const all = Object.values(settings).map(({ env }) => [env, ""]);
  expect(unknownSettings({ ...Object.fromEntries(all), SANDKEEP_URL: "", SANDKEEP_CONTEXT: "work" })).toEqual([]);
});
