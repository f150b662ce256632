/** The page of keys in a real browser, against a real daemon: keys with limits and quotas. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { newPage, signedIn, startBrowser } from "./browser.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let browser: Browser;
let client: SandkeepClient;

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
});
afterAll(() => undo.disposeAsync());

test("a new key gets every limit of the form, its secret is shown once, and its quota can be changed", async () => {
  await client.call("createProject", { body: { name: "nightly" } });
  const { page, complaints } = await signedIn(browser, daemon());
  await page.goto(`${daemon().url}/ui/keys`);
  await page.getByRole("button", { name: "New key…" }).waitFor();
  await page.keyboard.press("n");
  const form = page.getByRole("dialog", { name: "New key" });
  await form.getByLabel("Name").fill("ci");
  await form.getByLabel("Project").selectOption("nightly");
  await form.getByLabel("Network").fill("not a policy!");
  await form.getByLabel("Expires").selectOption("in a week");
  await form.getByLabel("Sandboxes").fill("3");
  await form.getByLabel("Memory, MiB").fill("2048");
  await form.getByRole("button", { name: "Create" }).click();
  // The daemon refuses it, and what was filled in stays.
  await form.getByRole("alert").waitFor();
  await form.getByLabel("Network").fill("npmjs.org");
  await form.getByRole("button", { name: "Create" }).click();
  const shown = page.getByRole("dialog", { name: "The new key" });
  const secret = (await shown.locator(".mono").textContent()) ?? "";
  await shown.getByRole("button", { name: "Close" }).click();

  const key = (await client.call("listKeys")).keys.find(({ name }) => name === "ci");
  expect(key).toMatchObject({ readOnly: false, admin: false, policyCeiling: "npmjs.org" });
  const { projects } = await client.call("listProjects");
  expect(key?.projectId).toBe(projects.find(({ name }) => name === "nightly")?.id);
  expect(Math.round(((key?.expiresAt ?? 0) - Date.now()) / 3_600_000)).toBe(7 * 24);
  const quota = async () => (await client.call("getKeyQuota", { params: { key: key?.id ?? "" } })).limits;
  const none = { vcpus: null, createsPerMinute: null, disk: null };
  expect(await quota()).toEqual({ ...none, sandboxes: 3, memory: 2048 });

  const row = page.getByRole("row").filter({ hasText: "ci" });
  await row.getByText("read and change, project nightly, network npmjs.org").waitFor();
  await row.getByRole("button", { name: "Quota…" }).click();
  const limits = page.getByRole("dialog", { name: "Quota of ci" });
  expect(await limits.getByLabel("Sandboxes").inputValue()).toBe("3");
  await limits.getByText("0 in use").first().waitFor();
  await limits.getByLabel("Sandboxes").fill("");
  await limits.getByLabel("vCPUs").fill("1.5");
  await limits.getByRole("button", { name: "Save" }).click();
  await expect.poll(quota).toEqual({ ...none, sandboxes: null, vcpus: 1.5, memory: 2048 });
  expect(complaints.filter((each) => !each.includes("400"))).toEqual([]);

  // The key itself may not see the keys: its page has the daemon's sentence, and no form.
  const other = await newPage(browser);
  await other.page.goto(`${daemon().url}/ui/keys`);
  await other.page.getByLabel("Paste an API key").fill(secret);
  await other.page.keyboard.press("Enter");
  await other.page.getByText("this key is limited").waitFor();
  expect(await other.page.getByRole("button", { name: "New key…" }).count()).toBe(0);
  await Promise.all([page, other.page].map((each) => each.context().close()));
});
