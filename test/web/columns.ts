/** The choice of columns of the list: with the keyboard, on a phone, and after a reload. */

import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";
import type { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { signedIn } from "./browser.ts";

/** leaves no sandbox behind */
export async function expectChoosableColumns(browser: Browser, daemon: TestDaemon, client: SandkeepClient) {
  const params = { sandbox: "broad" };
  await client.call("createSandbox", { body: { name: "broad", networkPolicy: "deny-all", persistent: false } });
  const { page, complaints } = await signedIn(browser, daemon, { viewport: { width: 1440, height: 800 } });
  await page.goto(`${daemon.url}/ui/sandboxes`);
  await page.getByRole("row").filter({ hasText: "broad" }).waitFor();
  const all = "Sandbox, Image, Ends in, CPU 10 min, Memory, Net in / out, Refused, Last command, Made over, Age";
  await expectHeads(page, all);

  // A key opens the menu at its first box, space changes it, and single keys do nothing to the list meanwhile.
  await page.keyboard.press("c");
  await page.getByRole("checkbox", { name: "Image", checked: true, exact: true }).and(page.locator(":focus")).waitFor();
  await page.keyboard.press("Space");
  await expectHeads(page, all.replace("Image, ", ""));
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await page.keyboard.press("n");
  expect(await page.getByRole("dialog").count()).toBe(1);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const fewer = all.replace("Image, Ends in, ", "");
  await expectHeads(page, fewer);
  await page.reload();
  await expectHeads(page, fewer);

  // What somebody wants is there in a narrower window, too: there the table scrolls, and not the page.
  await page.setViewportSize({ width: 800, height: 800 });
  await expectHeads(page, "Sandbox, Refused, Last command, Age");
  await page.getByRole("button", { name: "Columns" }).click();
  for (const name of ["Image", "CPU 10 min", "Memory", "Net in / out"]) {
    await page.getByRole("checkbox", { name, exact: true }).check();
  }
  await page.getByRole("heading", { name: "Sandboxes" }).press("Escape");
  await expectHeads(page, "Sandbox, Image, CPU 10 min, Memory, Net in / out, Refused, Last command, Age");
  const { name, table, region, document } = await page.evaluate(widths);
  expect(name).toBeGreaterThan(150);
  expect(table).toBeGreaterThan(region);
  expect(document).toBeLessThanOrEqual(800);

  // A phone has lines instead, and offers what fits into them.
  await page.setViewportSize({ width: 390, height: 800 });
  await page.getByRole("button", { name: "Columns" }).click();
  await expect
    .poll(() => page.getByRole("dialog").locator("label").allInnerTexts())
    .toEqual(["Ends in", "Refused", "Last command", "Age"]);
  await page.getByRole("checkbox", { name: "Age" }).uncheck();
  await page.locator("tr[data-row] .c-age").waitFor({ state: "detached" });
  expect((await page.evaluate(widths)).document).toBeLessThanOrEqual(390);
  await page.getByRole("button", { name: "Usual columns" }).click();
  await page.locator("tr[data-row] .c-age").waitFor();
  await page.setViewportSize({ width: 1440, height: 800 });
  await expectHeads(page, all);
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params });
}

/** the titles of the columns after the one of boxes */
async function expectHeads(page: Page, titles: string): Promise<void> {
  const heads = async () => (await page.locator(".list thead th").allInnerTexts()).slice(1).join(", ");
  const cells = () => page.locator("tr[data-row]").first().locator("th, td").count();
  await expect.poll(heads).toBe(titles);
  await expect.poll(cells).toBe(titles.split(", ").length + 1);
}

/** runs in the page: widths in pixels */
function widths() {
  const of = (selector: string) => document.querySelector(selector)?.getBoundingClientRect().width ?? 0;
  return {
    name: of(".list th.c-name"),
    table: of(".list table"),
    region: of(".list"),
    document: document.documentElement.scrollWidth,
  };
}
