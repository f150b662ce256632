/** What a phone must show although it is narrow: what happened and to what, every button, and the tab that is open. */

import type { Browser, Page } from "playwright-core";
import { expect } from "vitest";
import type { SandkeepClient } from "../../src/client/client.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { signedIn } from "./browser.ts";

const host = "a.very.long.name.of.a.host.in.some.region-1.cloud.example.org";

/** leaves neither the sandbox nor the drive behind that it makes */
export async function expectReadableOnPhone(
  browser: Browser,
  daemon: TestDaemon,
  client: SandkeepClient,
): Promise<void> {
  const params = { sandbox: "pocket" };
  await client.call("createSandbox", { body: { name: "pocket", networkPolicy: "deny-all", persistent: false } });
  await client.call("putDrive", { params: { drive: "pocket-drive" }, body: {} });
  const body = { command: "sh", args: ["-c", `getent hosts ${host}; exit 3`] };
  const { id } = await client.call("startCommand", { params, body });
  await client.call("waitForCommand", { params: { ...params, command: id } });
  const { page, complaints } = await signedIn(browser, daemon, { viewport: { width: 390, height: 844 } });
  const open = async (place: string) => {
    await page.goto(`${daemon.url}/ui/${place}`);
    await page.locator("h1").first().waitFor({ state: "attached" });
    await page.waitForFunction(() => document.querySelector(".waiting") === null);
  };

  await open("events");
  const ended = page.getByRole("row").filter({ hasText: "command.ended" }).filter({ hasText: "pocket" }).first();
  await ended.getByText("exited with 3").waitFor();
  for (const text of ["command.ended", "pocket", "exited with 3"])
    await expectWhole(page, ended.getByText(text).first());
  await open("audit");
  const made = page.getByRole("row").filter({ hasText: "sandbox.create" }).filter({ hasText: "pocket" }).first();
  for (const text of ["sandbox.create", "pocket", "done"]) await expectWhole(page, made.getByText(text).first());
  await open("drives");
  const drive = page.getByRole("row").filter({ hasText: "pocket-drive" });
  for (const name of ["Copy", "Delete…"]) await expectWhole(page, drive.getByRole("button", { name }));
  await open("doctor");
  await expectWhole(page, page.getByRole("button", { name: "Examine again" }));
  await open("egress");
  await page.getByRole("button", { name: host }).waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  for (const tab of ["Egress", "Events", "Use it from", "Terminal"]) {
    await open(`sandboxes/pocket?tab=${tab === "Use it from" ? "use" : tab.toLowerCase()}`);
    await expectWhole(page, page.getByRole("tab", { name: tab }));
  }
  expect(complaints).toEqual([]);
  await page.context().close();
  await client.call("deleteSandbox", { params });
  await client.call("deleteDrive", { params: { drive: "pocket-drive" } });
}

/** waits until an element is in the window, and no box around it cuts it off */
async function expectWhole(page: Page, element: ReturnType<Page["locator"]>): Promise<void> {
  await element.waitFor();
  await expect.poll(() => element.evaluate(cutOff), { timeout: 30_000 }).toBe("");
  expect(page.viewportSize()?.width).toBe(390);
}

/** runs in the page: what cuts an element off at the left or right; empty if nothing does */
function cutOff(element: Element): string {
  const { left, right, width } = element.getBoundingClientRect();
  if (width === 0) return "is not shown";
  if (left < 0 || right > innerWidth) return `reaches from ${left} to ${right}`;
  for (let around = element.parentElement; around; around = around.parentElement) {
    const box = around.getBoundingClientRect();
    if (getComputedStyle(around).overflowX !== "visible" && (left < box.left - 1 || right > box.right + 1))
      return `is cut off by ${around.outerHTML.slice(0, 80)}`;
  }
  return "";
}
