/** The list of sandboxes in a real browser, against a real daemon: what its rows say, and what people do to them. */

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

/** a server that a sandbox runs, whose traffic counts */
const served = `require("http").createServer((_, r) => r.end("served ".repeat(900))).listen(3000)`;

test("a row counts the traffic of the first session, and begins with what its processors did before", async () => {
  const sandbox = "chatty";
  await client.call("createSandbox", { body: { name: sandbox, networkPolicy: "deny-all" } });
  await client.call("createSandbox", { body: { name: "silent", networkPolicy: "deny-all" } });
  const { url } = await client.call("openPort", { params: { sandbox, port: "3000" } });
  await client.call("startCommand", { params: { sandbox }, body: { command: "node", args: ["-e", served] } });
  const told = async () => (await client.call("listActivity", { query: { sandbox, lately: 600_000 } })).activity[0];
  await expect
    .poll(async () => ((await told())?.samples ?? []).length, { timeout: 60_000, interval: 1000 })
    .toBeGreaterThan(2);
  expect((await client.call("getSandbox", { params: { sandbox } })).totals).toMatchObject({ bytesIn: 0, bytesOut: 0 });

  const { page, complaints } = await signedIn(browser, daemon(), { viewport: { width: 1600, height: 900 } });
  await expect
    .poll(async () => {
      await page.goto(url ?? "");
      return page.getByText("served").count();
    })
    .toBe(1);
  complaints.length = 0;
  await page.goto(`${daemon().url}/ui/sandboxes?sort=net`);
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: sandbox, exact: true }) });
  const line = row.locator(".c-cpu polyline");
  await line.waitFor({ state: "attached" });
  // Two of them are what this page has seen itself.
  expect(((await line.getAttribute("points")) ?? "").split(" ").length).toBeGreaterThan(2);
  await row
    .locator(".c-net")
    .getByText(/^[1-9][\d.]* k?B \/ [1-9][\d.]* k?B$/)
    .waitFor();
  await page.locator("tbody tr").first().filter({ hasText: sandbox }).waitFor();

  // The end of the session counts the same bytes only once.
  const traffic = (await told())?.traffic;
  await client.call("stopSession", { params: { sandbox } });
  await row.getByRole("img", { name: "stopped" }).waitFor();
  const { totals } = await client.call("getSandbox", { params: { sandbox } });
  expect(totals.bytesIn).toBeGreaterThanOrEqual(traffic?.bytesIn ?? Number.POSITIVE_INFINITY);
  await row.locator(".c-net").getByText(shown(totals.bytesIn)).waitFor();
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("selected sandboxes get a tag, and lose it again", async () => {
  for (const name of ["tag-a", "tag-b"])
    await client.call("createSandbox", { body: { name, networkPolicy: "deny-all", tags: { own: name } } });
  const { page, complaints } = await signedIn(browser, daemon());
  await page.goto(`${daemon().url}/ui/sandboxes?q=tag-`);
  const rows = page.getByRole("row").filter({ hasText: /tag-[ab]/ });
  const select = async () => {
    for (const name of ["tag-a", "tag-b"]) await page.getByLabel(`Select ${name}`).click();
    await page.getByRole("button", { name: "Tag…" }).click();
    await page.getByLabel("Tag", { exact: true }).fill("suite");
  };
  await select();
  await page.getByLabel("Value").fill("api");
  await page.getByRole("button", { name: "Set the tag" }).click();
  await expect.poll(() => rows.filter({ hasText: "suite=api" }).count()).toBe(2);
  expect(await rows.filter({ hasText: /own=tag-[ab]/ }).count()).toBe(2);
  await select();
  await page.getByRole("button", { name: "Remove it" }).click();
  await expect.poll(() => rows.filter({ hasText: "suite=api" }).count()).toBe(0);
  expect((await client.call("getSandbox", { params: { sandbox: "tag-a" } })).tags).toEqual({ own: "tag-a" });
  expect(complaints).toEqual([]);
  await page.context().close();
});

test("an act shows at once, and a refusal leaves the row as it was, with the daemon's sentence", async () => {
  const { page, complaints } = await signedIn(browser, daemon());
  await page.goto(`${daemon().url}/ui/sandboxes?q=tag-a`);
  const row = page.getByRole("row").filter({ hasText: "tag-a" });
  await row.getByRole("img", { name: "running" }).waitFor();
  const answer = Promise.withResolvers<void>();
  await page.route("**/sandboxes/tag-a/stop", async (route) => {
    await answer.promise;
    await route.fulfill({ status: 409, json: { error: { code: "conflict", message: "It is busy" } } });
  });
  await page.getByLabel("Select tag-a").click();
  await page.getByRole("button", { name: "Stop, keep files" }).click();
  await row.getByRole("img", { name: "stopping" }).waitFor();
  answer.resolve();
  await page.getByRole("alert").getByText("Cannot stop tag-a: It is busy").waitFor();
  await row.getByRole("img", { name: "running" }).waitFor();
  expect(complaints.filter((each) => !each.includes("409"))).toEqual([]);
  await page.context().close();
});

test("a key that may only read sees buttons that say so, and no key or palette gets around them", async () => {
  const { secret } = await client.call("createKey", { body: { name: "reader", readOnly: true } });
  const { page, complaints } = await newPage(browser);
  await page.goto(`${daemon().url}/ui/sandboxes?q=tag-a`);
  await page.getByLabel("Paste an API key").fill(secret);
  await page.keyboard.press("Enter");
  await page.getByText("read only").waitFor();
  await page.getByLabel("Select tag-a").click();
  for (const name of [/^New sandbox/, "Stop, keep files", "Fork", "Tag…", "Delete…"]) {
    const button = page.getByRole("button", { name });
    await button.waitFor();
    expect([name, await button.isDisabled(), await button.getAttribute("title")]).toEqual([
      ...[name, true, "Your key may only read"],
    ]);
  }
  for (const key of ["s", "n", "f"]) await page.keyboard.press(key);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("tag-a");
  await page.getByRole("option").first().waitFor();
  expect(await page.getByRole("option").filter({ hasText: "Stop" }).count()).toBe(0);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "tag-a" }).waitFor();
  expect(await page.getByRole("button", { name: /^Fork/ }).isDisabled()).toBe(true);
  await page.goto(`${daemon().url}/ui/drives`);
  await page.getByLabel("New drive").waitFor();
  expect(await page.getByRole("button", { name: "Create" }).isDisabled()).toBe(true);
  const { state } = await client.call("getSandbox", { params: { sandbox: "tag-a" } });
  expect([state, complaints]).toEqual(["running", []]);
  await page.context().close();
});

/** how the list writes bytes, below a megabyte */
function shown(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : `${bytes >= 100_000 ? Math.round(bytes / 1000) : (bytes / 1000).toFixed(1)} kB`;
}
