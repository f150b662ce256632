/** What people do on the pages of a project, in a real browser: with keys, drives, images, snapshots and several sandboxes. */

import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { signedIn, startBrowser } from "./browser.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
let browser: Browser;
let client: SandkeepClient;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
  const permissions = ["clipboard-read", "clipboard-write"];
  ({ page, complaints } = await signedIn(browser, daemon(), { permissions }));
});
afterEach(() => expect(complaints.splice(0)).toEqual([]));
afterAll(() => undo.disposeAsync());

const open = (place: string) => page.goto(`${daemon().url}/ui/${place}`);
const rowOf = (text: string) => page.getByRole("row").filter({ hasText: text });
const press = (within: Page | Locator, name: string | RegExp) => within.getByRole("button", { name }).click();
const answer = (title: string, verb: string) =>
  page.getByRole("dialog", { name: title }).getByRole("button", { name: verb, exact: true }).click();
const copied = () => page.evaluate(() => navigator.clipboard.readText());

async function create(name: string): Promise<void> {
  await client.call("createSandbox", { body: { name, networkPolicy: "deny-all", timeout: 3_600_000 } });
}

async function statesOf(...names: string[]): Promise<string[]> {
  const found = names.map((sandbox) => client.call("getSandbox", { params: { sandbox } }));
  return (await Promise.all(found)).map(({ state }) => state);
}

async function run(sandbox: string, line: string): Promise<void> {
  const params = { sandbox };
  const { id } = await client.call("startCommand", { params, body: { command: "sh", args: ["-c", line] } });
  await client.call("waitForCommand", { params: { ...params, command: id } });
}

test("a key is shown once, works, and stops working when it is deleted", async () => {
  await open("keys");
  await press(page, "New key…");
  const form = page.getByRole("dialog", { name: "New key" });
  await form.getByLabel("Name").fill("ci");
  await form.getByLabel("May").selectOption("only read");
  await press(form, "Create");
  const shown = page.getByRole("dialog", { name: "The new key" });
  const secret = await shown.locator(".mono").innerText();
  await press(shown, "Copy");
  await page.getByText("Copied").waitFor();
  expect(await copied()).toBe(secret);
  await press(shown, "Close");
  await shown.waitFor({ state: "detached" });
  await rowOf("ci").getByText("read", { exact: true }).waitFor();
  expect(await page.content()).not.toContain(secret);
  await page.reload();
  await rowOf("ci").waitFor();
  expect(await page.content()).not.toContain(secret);
  const own = new SandkeepClient({ url: daemon().url, key: secret });
  expect((await own.call("listDrives", {})).drives).toEqual([]);
  await expect(own.call("putDrive", { params: { drive: "mine" }, body: {} })).rejects.toMatchObject({ status: 403 });

  await press(rowOf("ci"), "Delete…");
  await answer("Delete key", "Cancel");
  expect((await own.call("listDrives", {})).drives).toEqual([]);
  await press(rowOf("ci"), "Delete…");
  await answer("Delete key", "Delete");
  await rowOf("ci").waitFor({ state: "detached" });
  await expect(own.call("listDrives", {})).rejects.toMatchObject({ status: 401 });
});

test("a drive is made, copied below a name that is free, and deleted", async () => {
  await open("drives");
  await page.getByText("There is no drive").waitFor();
  await page.getByLabel("New drive").fill("cache");
  await press(page, "Create");
  await rowOf("cache").waitFor();
  for (const name of ["cache-2", "cache-3"]) {
    await press(rowOf("cache").last(), "Copy");
    await page.getByRole("rowheader", { name, exact: true }).waitFor();
  }
  await press(rowOf("cache-2"), "Delete…");
  await answer("Delete drive", "Delete");
  await rowOf("cache-2").waitFor({ state: "detached" });
  const { drives } = await client.call("listDrives", {});
  expect(drives.map(({ name }) => name).sort()).toEqual(["cache", "cache-3"]);
});

test("an image starts a sandbox, says which ones use it, and is deleted if it is the team's", async () => {
  await create("base");
  const { id } = await client.call("createSnapshot", { params: { sandbox: "base" }, body: {} });
  await client.call("createImageFromSnapshot", { params: { snapshot: id }, body: { name: "own" } });
  await open("images");
  await press(rowOf("team"), "New sandbox");
  const form = page.getByRole("dialog", { name: "New sandbox" });
  expect(await form.getByLabel("Image").inputValue()).toBe("own");
  await form.getByLabel("Name").fill("from-own");
  await form.getByLabel("Network").fill("deny-all");
  await press(form, "Create");
  await page.getByRole("heading", { name: "from-own" }).waitFor();
  expect(await client.call("getSandbox", { params: { sandbox: "from-own" } })).toMatchObject({ image: "own" });
  await page.getByRole("link", { name: "Images" }).click();
  await rowOf("team").getByRole("link", { name: "1" }).click();
  await page.getByText("1 of 2").waitFor();
  await open("images");
  expect(await rowOf("host").first().getByRole("button", { name: "Delete…" }).count()).toBe(0);
  await press(rowOf("team"), "Delete…");
  await answer("Delete image", "Delete");
  await rowOf("team").waitFor({ state: "detached" });
  expect((await client.call("listImages")).images.filter(({ own }) => own)).toEqual([]);
});

test("a snapshot starts a new sandbox, becomes the start of the next session, and is deleted", async () => {
  const files = async (sandbox: string) =>
    (await client.call("listFiles", { params: { sandbox }, query: { path: "/tmp/kept" } })).files.map(
      ({ name }) => name,
    );
  await run("base", "mkdir /tmp/kept; touch /tmp/kept/early");
  await client.call("createSnapshot", { params: { sandbox: "base" }, body: { name: "early" } });
  await run("base", "touch /tmp/kept/late");
  await client.call("createSnapshot", { params: { sandbox: "base" }, body: { name: "late" } });

  await open("snapshots");
  await press(rowOf("early"), "New sandbox");
  await page.getByRole("heading", { name: "base" }).waitFor({ state: "detached" });
  await page.getByRole("tab", { name: "Commands" }).waitFor();
  const copy = decodeURIComponent(new URL(page.url()).pathname.split("/").at(-1) ?? "");
  expect(await files(copy)).toEqual(["early"]);

  await open("sandboxes/base?tab=snapshots");
  await press(rowOf("early"), "Go back…");
  await answer("Go back to this snapshot", "Go back");
  await page.getByText("The next session of base starts from early").waitFor();
  await rowOf("early").getByText("next session starts here").waitFor();
  expect(await rowOf("early").getByRole("button", { name: "Go back…" }).count()).toBe(0);
  await press(rowOf("late"), "Delete…");
  await answer("Delete snapshot", "Delete");
  await rowOf("late").waitFor({ state: "detached" });
  const { snapshots } = await client.call("listSnapshots", { query: { sandbox: "base" } });
  expect(snapshots.map(({ name }) => name)).not.toContain("late");
});

test("several sandboxes are stopped, copied and deleted together", async () => {
  for (const name of ["one", "two"]) await create(name);
  const choose = async () => {
    for (const name of ["one", "two"]) await page.getByLabel(`Select ${name}`, { exact: true }).check();
  };
  const bar = page.getByRole("toolbar", { name: "Selected sandboxes" });
  await open("sandboxes");
  await choose();
  await bar.getByText("2 selected").waitFor();
  await press(bar, "Fork");
  await page.getByText("7 of 7").waitFor();
  await bar.waitFor({ state: "detached" });
  expect(new URL(page.url()).pathname).toBe("/ui/sandboxes");
  await choose();
  await press(bar, /^Stop, keep files/);
  for (const name of ["one", "two"])
    await page
      .getByRole("row")
      .filter({ has: page.getByRole("link", { name, exact: true }) })
      .getByRole("img", { name: "stopped" })
      .waitFor();
  expect(await statesOf("one", "two", "base")).toEqual(["stopped", "stopped", "running"]);
  await choose();
  await press(bar, /^Clear/);
  await bar.waitFor({ state: "detached" });
  await choose();
  await press(bar, "Delete…");
  const question = page.getByRole("dialog", { name: "Delete sandboxes" });
  await question.getByText("2 sandboxes lose their files and snapshots").waitFor();
  await press(question, "Delete 2");
  await page.getByText("5 of 5").waitFor();
  const names = (await client.call("listSandboxes", {})).sandboxes.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["base", "from-own"]));
  expect(names).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(one|two)$/)]));
});

test("the palette acts on the sandbox of the page, and on the selected ones", async () => {
  const choose = async (text: string) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill(text);
    await page.getByRole("option", { selected: true }).getByText("do", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("combobox").waitFor({ state: "detached" });
  };
  const expiry = async () => (await client.call("getSandbox", { params: { sandbox: "base" } })).session.expiresAt ?? 0;
  await open("sandboxes/base");
  await page.getByRole("heading", { name: "base" }).waitFor();
  const before = await expiry();
  await choose("extend by");
  await expect.poll(expiry).toBe(before + 15 * 60_000);
  await choose("snapshot: base");
  await page.getByText("Snapshot of base made").waitFor();
  await choose("fork: base");
  await page.getByRole("heading", { name: / base$/ }).waitFor({ state: "detached" });
  await open("sandboxes");
  for (const name of ["base", "from-own"]) await page.getByLabel(`Select ${name}`, { exact: true }).check();
  await choose("stop: 2 sandboxes");
  await expect.poll(() => statesOf("base", "from-own")).toEqual(["stopped", "stopped"]);
  await open("sandboxes/base");
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await choose("resume: base");
  await expect.poll(() => statesOf("base")).toEqual(["running"]);
});
