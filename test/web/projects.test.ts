/** Teams, projects and keys in a real browser: a page is about one project, and a key sees what it may do there. */

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

test("an admin key chooses among teams and projects, and every page and tab stays in the chosen one", async () => {
  await client.call("createTeam", { body: { slug: "ml" } });
  await client.call("createProject", { query: { team: "ml" }, body: { name: "nightly" } });
  const networkPolicy = "deny-all";
  await client.call("createSandbox", { body: { name: "ours", networkPolicy } });
  const theirs = { team: "ml", project: "nightly" };
  await client.call("createSandbox", { query: theirs, body: { name: "theirs", networkPolicy } });

  const { page, complaints } = await signedIn(browser, daemon());
  await page.goto(`${daemon().url}/ui/sandboxes`);
  const row = (name: string) => page.getByRole("row").filter({ hasText: name });
  await row("ours").waitFor();
  expect(await row("theirs").count()).toBe(0);
  await page.getByTitle(/^Key \w+, which may act for every team/).waitFor();
  await page.getByLabel("Team").selectOption("ml");
  await page.getByText("There is no sandbox yet").waitFor();
  expect(new URL(page.url()).pathname).toBe("/ui/in/ml/default/sandboxes");
  await page.getByLabel("Project").selectOption("nightly");
  await row("theirs").waitFor();
  expect(await row("ours").count()).toBe(0);

  // It is live, and links, keys and a second tab stay there.
  const second = await page.context().newPage();
  await second.goto(page.url());
  for (const each of [page, second]) await each.getByRole("row").filter({ hasText: "theirs" }).waitFor();
  await client.call("createSandbox", { query: theirs, body: { name: "theirs-too", networkPolicy } });
  for (const each of [page, second]) await each.getByRole("row").filter({ hasText: "theirs-too" }).waitFor();
  await row("theirs-too").getByRole("link").first().click();
  await page.getByRole("heading", { name: "theirs-too" }).waitFor();
  await page.keyboard.press("t");
  await page.getByText("connected").waitFor();
  await page.keyboard.type("echo $((6 * 7))-answers\n");
  await page.locator(".shell .xterm-rows").getByText("42-answers").waitFor();
  await page.keyboard.press("Control+Shift+Backslash");
  await page.keyboard.press("s");
  await page.getByRole("img", { name: "stopped" }).first().waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await row("session.stop").waitFor();
  expect(new URL(page.url()).pathname).toBe("/ui/in/ml/nightly/audit");
  await page.goBack();
  await page.getByRole("heading", { name: "theirs-too" }).waitFor();
  // The audit selects in the daemon, by what somebody types or by a click on an entry.
  await page.goto(`${daemon().url}/ui/in/ml/nightly/audit`);
  await row("sandbox.create").first().waitFor();
  await page.getByLabel("Action").fill("session");
  await page.keyboard.press("Enter");
  await row("sandbox.create").first().waitFor({ state: "detached" });
  await row("session.stop").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await row("theirs-too").getByRole("button", { name: "theirs-too" }).first().click();
  await page.getByText("1 entry").waitFor();
  expect(new URL(page.url()).searchParams.get("target")).toBe("theirs-too");
  await page.getByLabel("Outcome").selectOption("failed");
  await page.getByText("No entry is like that").waitFor();
  expect(complaints).toEqual([]);

  // A key of one team has nothing to choose, and no way to the others.
  const { secret } = await client.call("createKey", { query: { team: "ml" }, body: { name: "of ml" } });
  const other = await signedIn(browser, { ...daemon(), key: secret });
  await other.page.getByTitle("Key of ml, which may read and change").waitFor();
  await other.page.getByLabel("Project").waitFor();
  expect(await other.page.getByLabel("Team").count()).toBe(0);
  await other.page.goto(`${daemon().url}/ui/in/default/default/sandboxes`);
  await other.page.getByText('this key is not one of team "default"').waitFor();
  await other.page.getByRole("link", { name: "Go to your own project" }).click();
  await other.page.getByRole("button", { name: "New sandbox" }).first().waitFor();
  await Promise.all([page, other.page].map((each) => each.context().close()));
});
