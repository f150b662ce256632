/** The overview and the rail in a real browser, against a real daemon: counts, boots, and failures with their commands. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { signedIn, startBrowser } from "./browser.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let browser: Browser;
let client: SandkeepClient;

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
});
afterAll(() => undo.disposeAsync());

test("the rail counts things and findings, live, and the overview has boots and what failed with its command", async () => {
  const sandbox = "broken";
  await client.call("createSandbox", { body: { name: sandbox, networkPolicy: "deny-all" } });
  const body = { command: "sh", args: ["-c", "echo last-words; exit 3"] };
  const { id } = await client.call("startCommand", { params: { sandbox }, body });
  await client.call("waitForCommand", { params: { sandbox, command: id } });
  await client.call("stopSession", { params: { sandbox } });

  const { page, complaints } = await signedIn(browser, daemon());
  const endReason = "killed: out of memory";
  // To the page this session has failed; all else is as the daemon says.
  await page.route(/\/sandkeep\/v1\/sandboxes(\?|$|\/broken$)/, async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    for (const each of answer.sandboxes ?? [answer]) {
      Object.assign(each, { state: "failed", session: { ...each.session, state: "failed", endReason } });
    }
    await route.fulfill({ response, json: answer });
  });
  await page.goto(`${daemon().url}/ui/overview`);
  const rail = (name: string) => page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name });
  const { images } = await client.call("listImages");
  await expect.poll(() => rail("Images").textContent()).toBe(`Images${images.length}`);
  await expect.poll(() => rail("Snapshots").textContent()).toBe("Snapshots1");
  await expect.poll(() => rail("Drives").textContent()).toBe("Drives0");
  await client.call("putDrive", { params: { drive: "cache" }, body: {} });
  await expect.poll(() => rail("Drives").textContent(), { timeout: 20_000 }).toBe("Drives1");
  const { findings } = await client.call("getDiagnosis");
  const wrong = findings.filter(({ state }) => state !== "ok").length;
  const words = wrong === 0 ? "Doctor" : `Doctor${wrong} finding${wrong === 1 ? " needs" : "s need"} a look`;
  await expect.poll(() => rail("Doctor").textContent(), { timeout: 20_000 }).toBe(words);

  const tile = page.locator(".figures div").filter({ has: page.getByText("boots in the last hour") });
  await tile.getByText(/^1 · p50 [\d.]+ m?s$/).waitFor();
  const failure = page.getByRole("listitem").filter({ hasText: endReason });
  await failure.getByText("echo last-words; exit 3").waitFor();
  await failure.getByRole("link", { name: sandbox }).click();
  await page.getByLabel("Output").getByText("last-words").waitFor();
  const { searchParams } = new URL(page.url());
  const [from, to] = ["from", "to"].map((name) => Number(searchParams.get(name)));
  const { stateChangedAt } = await client.call("getSandbox", { params: { sandbox } });
  expect([(from ?? 0) < stateChangedAt, (to ?? 0) > stateChangedAt]).toEqual([true, true]);
  expect(complaints).toEqual([]);
  await page.context().close();
});
