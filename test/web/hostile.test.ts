/** Text that is made to be taken for markup, links or other text, in every place of the dashboard that shows foreign text. */

import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { SandkeepClient } from "../../src/client/client.ts";
import { daemonOfFile } from "../harness/daemon.ts";
import { signedIn, startBrowser } from "./browser.ts";

/** breaks out of markup and turns the direction of what follows, and how a page must show it; a file may have this name */
const hostile = `"><img src=x onerror=globalThis.pwned=1><b>\u202e`;
const shown = `"><img src=x onerror=globalThis.pwned=1><b>\\u{202e}`;
const contents = {
  md: `# title\n[link](javascript:globalThis.pwned=1) ![x](x) <img src=x onerror=globalThis.pwned=1>\n${hostile}\n`,
  html: `<!doctype html><script>globalThis.pwned=1</script><body onload=globalThis.pwned=1>${hostile}</body>\n`,
  svg: `<svg xmlns="http://www.w3.org/2000/svg" onload="globalThis.pwned=1"><text>${hostile}</text></svg>\n`,
  // The first bytes of a picture do not make the rest one.
  png: `\x89PNG <script>globalThis.pwned=1</script>${hostile}\n`,
};

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
const params = { sandbox: "desk" };
let browser: Browser;
let client: SandkeepClient;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await startBrowser(undo);
  client = new SandkeepClient({ url: daemon().url, key: daemon().key });
  const body = { name: "desk", tags: { evil: hostile }, networkPolicy: "deny-all", timeout: 3_600_000 };
  await client.call("createSandbox", { body });
  await client.call("createSnapshot", { params, body: { name: "first" } });
  for (const [ending, bytes] of Object.entries(contents)) {
    await client.call("writeFile", { params, query: { path: `/tmp/${hostile}/${hostile}.${ending}` }, bytes });
  }
  ({ page, complaints } = await signedIn(browser, daemon()));
});
afterEach(async () => {
  await expectText(page);
  expect(complaints.splice(0)).toEqual([]);
});
afterAll(() => undo.disposeAsync());

const open = (place: string) => page.goto(`${daemon().url}/ui/${place}`);
const text = (within: Page | ReturnType<Page["locator"]>, more = "") => within.getByText(`${shown}${more}`).first();

/** that nothing of the text became an element, or changes how other text reads */
async function expectText(page: Page): Promise<void> {
  const found = await page.evaluate(() => ({
    ran: "pwned" in globalThis,
    elements: document.querySelectorAll("#app :is(img, script, iframe, object, embed, a[href^='javascript']), #app b b")
      .length,
    turned: document.body.innerText.includes("\u202e") || document.title.includes("\u202e"),
  }));
  expect(found).toEqual({ ran: false, elements: 0, turned: false });
}

test("names of files and folders, and the content of markdown, HTML, SVG and false pictures", async () => {
  await open(`sandboxes/desk?tab=files&folder=/tmp`);
  await page.locator("ul.files").getByRole("button").filter({ hasText: shown }).click();
  await text(page.locator(".path")).waitFor();
  for (const [ending, content] of Object.entries(contents)) {
    await page
      .locator("ul.files")
      .getByRole("button")
      .filter({ hasText: `${shown}.${ending}` })
      .click();
    await page.locator(".ph b").getByText(`.${ending}`).waitFor();
    const lines = content.replace("\u202e", "\\u{202e}").trimEnd();
    await expect.poll(() => page.locator("pre.output").textContent()).toContain(lines.slice(lines.indexOf("<")));
    await expectText(page);
  }
  await page
    .locator("ul.files")
    .getByRole("button")
    .filter({ hasText: `${shown}.md` })
    .click();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: `Content of ${shown}.md` }).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await text(page.locator(".notice"), ".md").waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  const question = page.getByRole("dialog", { name: `Delete ${shown}.md` });
  await text(question, ".md is lost").waitFor();
  await expectText(page);
  await question.getByRole("button", { name: "Delete", exact: true }).click();
  await page.locator("ul.files").getByText(`${shown}.md`).waitFor({ state: "detached" });
  const buffer = Buffer.from("sent");
  await page.locator('input[type="file"]').setInputFiles({ name: `${hostile}.txt`, mimeType: "text/html", buffer });
  await text(page.locator(".notice"), ".txt").waitFor();
  await open(`sandboxes/desk?tab=snapshots`);
  await page.getByRole("button", { name: "Diff" }).first().click();
  await text(page.getByRole("region", { name: "Difference" }), ".svg").waitFor();
});

test("commands, their output, and what is told of them elsewhere", async () => {
  const copy = `cp "$(command -v bash)" "/tmp/$1.x"; "/tmp/$1.x" -c "echo >/dev/tcp/192.0.2.1/80"; printf %s "$1"`;
  const body = { command: "sh", args: ["-c", copy, "sh", hostile] };
  const { id } = await client.call("startCommand", { params, body });
  await client.call("waitForCommand", { params: { ...params, command: id } });
  await open("sandboxes/desk?tab=commands&beside=egress");
  await text(page.locator(".commands")).waitFor();
  await text(page.locator(".ph b")).waitFor();
  await text(page.getByLabel("Output")).waitFor();
  const lines = page.getByLabel("Connections", { exact: true }).getByRole("listitem");
  await lines.filter({ hasText: "192.0.2.1:80" }).first().waitFor();
  await page.getByText("Time line as a table").click();
  await text(page.locator(".as-table")).waitFor();
  await expectText(page);
  for (const place of ["sandboxes", "sandboxes/desk?tab=events", "events", "egress", "audit", "overview", "usage"]) {
    await open(place);
    await page.locator("h1").first().waitFor({ state: "attached" });
    await page.waitForFunction(() => document.querySelector(".waiting") === null);
    if (place === "sandboxes") await text(page.getByRole("row")).waitFor();
    await expectText(page);
  }
});

test("names of keys, addresses and filters, and errors that quote them", async () => {
  await client.call("createKey", { body: { name: hostile } });
  await open("keys");
  await text(page.getByRole("row")).waitFor();
  await page.getByRole("row").filter({ hasText: shown }).getByRole("button", { name: "Delete…" }).click();
  await text(page.getByRole("dialog")).waitFor();
  await expectText(page);

  await open(`sandboxes?q=${encodeURIComponent(hostile)}`);
  await page.getByRole("button", { name: "Save view" }).click();
  await text(page.getByRole("navigation", { name: "Views" })).waitFor();
  await expectText(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill(hostile);
  await page.getByText("Nothing has this name").waitFor();

  // The daemon refuses these, and browsers say so of each.
  await open(`sandboxes/${encodeURIComponent(hostile)}`);
  await text(page.locator(".empty")).waitFor();
  await text(page.locator(".crumbs")).waitFor();
  await expectText(page);
  await open(`sandboxes/desk?tab=files&folder=${encodeURIComponent(`/nowhere/${hostile}`)}`);
  await page.getByRole("alert").waitFor();
  await text(page.locator(".path")).waitFor();
  await expectText(page);
  await open("sandboxes");
  await page.getByRole("button", { name: /^New sandbox/ }).click();
  await page.getByRole("textbox", { name: "Image" }).fill(hostile);
  await page.getByRole("button", { name: "Create" }).click();
  await page.locator(".notice.problem").waitFor();
  expect(complaints.splice(0).filter((each) => !/status of 4\d\d/.test(each))).toEqual([]);
});
