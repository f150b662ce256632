/** The way to a control with the keyboard alone, as somebody without a mouse takes it. */

import type { Locator, Page } from "playwright-core";

/** more than any page has on the way */
const most = 150;

/** moves the focus there with Tab or another key, and fails if the key never leads there */
export async function reach(page: Page, control: Locator, key = "Tab"): Promise<void> {
  await control.waitFor();
  for (let count = 0; count < most; count++) {
    if (await control.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  throw new Error(`${most} times ${key} do not lead to ${control}`);
}

/** reaches a control and uses it */
export async function use(page: Page, control: Locator): Promise<void> {
  await reach(page, control);
  await page.keyboard.press("Enter");
}
