/** Every place of the dashboard in every width and theme. The quick tests look at each place in one of them. */

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

test("every place is accessible in both themes and three widths, and never scrolls sideways", async () => {
  const browser = await startBrowser(undo);
  expect(await problemsOfPlaces(browser, daemon(), newcomer, () => looks)).toEqual([]);
}, 1_200_000);
