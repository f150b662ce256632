/** Every place of the dashboard once, in one of the widths and themes, with axe and under its content security policy. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../harness/daemon.ts";
import { looks, problemsOfPlaces } from "./accessibility.ts";
import { startBrowser } from "./browser.ts";
import { furnish } from "./places.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let newcomer: string;
beforeAll(async () => {
  newcomer = await furnish(daemon());
});
afterAll(() => undo.disposeAsync());

test("every place is accessible, keeps to its policy and never scrolls sideways, each in one width and theme", async () => {
  const browser = await startBrowser(undo);
  const rotated = (index: number) => looks.slice(index % looks.length).slice(0, 1);
  expect(await problemsOfPlaces(browser, daemon(), newcomer, rotated)).toEqual([]);
});
