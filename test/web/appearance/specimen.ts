/**
 * A page that has nothing of the dashboard's but draws the same kinds of things: letters in its fonts and sizes, boxes to
 * tick, round corners, lines and curves. If a browser draws it unlike the stored picture, then so are all other pictures,
 * and that says nothing about the dashboard.
 */

import type { Browser } from "playwright-core";
import { fonts } from "./fixed-pages.ts";

const words = "Sandbox crawler-07, 31m of 4.1 GB · Refused → 12 ✓ ✕ “quoted”";

const lines = [fonts.sans, fonts.mono].flatMap((family) =>
  [11, 12, 13, 16].flatMap((size) =>
    [400, 500, 640].map((weight) => `<p style='font:${weight} ${size}px/1.45 ${family}'>${words}</p>`),
  ),
);

const text = `<!doctype html><meta charset="utf-8"><style>
  body { margin: 8px; color-scheme: light; background: #f7f6f3; color: #1d1c1a }
  body > div { padding: 8px } p { margin: 0 } .dark { color-scheme: dark; background: #131211; color: #edeae4 }
  .box { width: 90px; height: 28px; border: 1px solid #8b867b; border-radius: 5px; box-shadow: 0 8px 28px #0003 }
</style>
<div>${lines.join("")}</div><div class="dark">${lines.slice(0, 6).join("")}<input type="checkbox" checked></div>
<div><input type="checkbox"> <input type="checkbox" checked style="accent-color:#9a4f0d"> <div class="box"></div>
<svg width="200" height="40" fill="none" stroke="#6b675f" stroke-width="1.4"><path d="M2 20l30-12 30 20 40-9h50"/>
<circle cx="180" cy="20" r="9"/><rect x="2" y="32" width="90" height="4" rx="2" fill="#9a4f0d" stroke="none"/></svg></div>`;

export async function pictureOfSpecimen(browser: Browser): Promise<Buffer> {
  const page = await browser.newPage({ viewport: { width: 560, height: 860 } });
  try {
    await page.setContent(text);
    return await page.screenshot();
  } finally {
    await page.close();
  }
}
