/**
 * Pictures of the dashboard's pages, compared with stored ones: a change that somebody did not intend to be seen fails.
 * `DASHBOARD_LOOKS=1 npx vitest run test/web/appearance` takes the stored pictures again; look at them before you commit.
 *
 * Where Chromium draws a page that is not the dashboard's unlike the stored picture of it, the comparison is skipped.
 */

import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { root } from "../../harness/harness.ts";
import { drawsOtherwise } from "../../runner/excuses.ts";
import { startBrowser } from "../browser.ts";
import { type Difference, differenceOf } from "./comparison.ts";
import { FixedPages, type Shown } from "./fixed-pages.ts";
import { pictureOfSpecimen } from "./specimen.ts";

const stored = join(root, "test/web/appearance/pictures");
const isTaking = Boolean(process.env.DASHBOARD_LOOKS);
const undo = new AsyncDisposableStack();
let browser: Browser;
let pages: FixedPages;

beforeAll(async () => {
  browser = await startBrowser(undo, fixedDrawing);
  pages = await FixedPages.open(browser);
  if (isTaking) await writeFile(pathOf("specimen"), await pictureOfSpecimen(browser));
});
afterAll(() => undo.disposeAsync());

/** whatever the settings of the machine say about letters and colours */
const fixedDrawing = ["--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"];

/** pixels that may differ: a browser's next version draws some corner otherwise */
const fewPixels = 12;

const crawler = "sandboxes/crawler?command=cmd_00000000000000000000000000000001";
const shown = {
  "sign-in": { place: "sign-in", width: 720, height: 480, colorScheme: "light" },
  overview: { place: "overview", width: 1440, height: 760, colorScheme: "light", ticks: 3 },
  "overview-tablet": { place: "overview", width: 768, colorScheme: "dark", ticks: 3 },
  "overview-phone": { place: "overview", width: 390, colorScheme: "light", ticks: 3 },
  list: { place: "sandboxes", width: 1440, height: 480, colorScheme: "light", ticks: 3 },
  "list-tablet": { place: "sandboxes", width: 768, height: 480, colorScheme: "light" },
  "list-phone": { place: "sandboxes", width: 390, colorScheme: "dark" },
  columns: { place: "sandboxes", width: 1024, height: 480, colorScheme: "dark", keys: ["c"] },
  sandbox: { place: `${crawler}&tab=commands&beside=egress`, width: 1440, height: 640, colorScheme: "dark" },
  "sandbox-phone": { place: `${crawler}&tab=egress`, width: 390, colorScheme: "light" },
  snapshots: { place: "snapshots", width: 1024, height: 400, colorScheme: "light" },
  egress: { place: "egress", width: 1024, height: 400, colorScheme: "dark" },
  images: { place: "images", width: 1024, height: 240, colorScheme: "dark" },
  drives: { place: "drives", width: 1024, height: 240, colorScheme: "light" },
  usage: { place: "usage", width: 1024, height: 320, colorScheme: "dark" },
  events: { place: "events", width: 1024, height: 280, colorScheme: "light" },
  "sandbox-files": { place: "sandboxes/crawler?tab=files", width: 1024, height: 480, colorScheme: "light" },
  "sandbox-ports": { place: "sandboxes/crawler?tab=ports", width: 768, height: 480, colorScheme: "dark" },
  keys: { place: "keys", width: 1024, height: 400, colorScheme: "light" },
  "new-key": { place: "keys", width: 1024, height: 640, colorScheme: "dark", keys: ["n"] },
  selected: { place: "sandboxes", width: 1024, height: 480, colorScheme: "light", keys: ["j", "x", "j", "x"] },
  audit: { place: "audit", width: 1024, height: 400, colorScheme: "dark" },
  doctor: { place: "doctor", width: 1024, height: 400, colorScheme: "light" },
} satisfies Record<string, Shown>;

describe("a page looks as in its stored picture", () => {
  test.for(Object.entries(shown))("%s", async ([name, how], { skip }) => {
    await pages.show(how);
    if (isTaking) return writeFile(pathOf(name), await pages.page.screenshot());
    if (!(await drawsAsStored())) return skip(drawsOtherwise);
    let taken = await pages.page.screenshot();
    let difference = await differenceFrom(name, taken);
    // What is drawn late is no difference.
    for (let tries = 0; tries < 10 && difference.pixels > fewPixels; tries++) {
      taken = await pages.page.screenshot();
      difference = await differenceFrom(name, taken);
    }
    const { pixels, box } = difference;
    if (pixels <= fewPixels) return;
    // It stays there, to be looked at.
    const path = join(await mkdtemp(join(tmpdir(), "sandkeep-pictures-")), `${name}.png`);
    await writeFile(path, taken);
    const where = `from ${box.left},${box.top} to ${box.right},${box.bottom}`;
    const hint = "If it is meant to, take the pictures again: DASHBOARD_LOOKS=1 npx vitest run test/web/appearance";
    expect.fail(`"${name}" differs in ${pixels} pixels ${where}; see ${path}. ${hint}`);
  });
});

const changes = {
  "a colour of a surface": ":root{--bg:light-dark(#f4efe6,#131211)}",
  "a colour of few pixels": ".bar .part{fill:#2a5ab5}",
  "two pixels more of room": ".figures{padding-bottom:18px}",
  "a column that is gone": ".figures div:nth-child(2){display:none}",
  "another size of letters": ".figures dd{font-size:17px}",
};

describe("a change of a page is a difference", () => {
  test(Object.keys(changes).join(", "), async ({ skip }) => {
    if (!(await drawsAsStored())) return skip(drawsOtherwise);
    await pages.show(shown.overview);
    for (const [what, styles] of Object.entries(changes)) {
      await pages.page.evaluate(addStyles, styles);
      const { pixels } = await differenceFrom("overview", await pages.page.screenshot());
      expect({ what, pixels }).toEqual({ what, pixels: expect.toSatisfy((count) => count > 4 * fewPixels) });
    }
  });

  test("but not other edges of lines", async () => {
    const [plain, moved] = [0, 0.3].map(
      (by) => `<svg fill="none" stroke="#1d1c1a" stroke-width="1.4"><g transform="translate(${by} ${by})">
        <path d="M9 9l40 22 30-19h60v50"/><circle cx="120" cy="90" r="20"/></g></svg>`,
    );
    const page = await browser.newPage();
    const pictureOf = async (text = "") => {
      await page.setContent(text);
      return page.screenshot();
    };
    const [one, other] = [await pictureOf(plain), await pictureOf(moved)];
    expect(one.equals(other)).toBe(false);
    expect((await differenceOf(page, one, other)).pixels).toBeLessThanOrEqual(fewPixels);
    await page.close();
  });
});

test("the stored pictures are small", async () => {
  const sizes = await Promise.all(
    ["specimen", ...Object.keys(shown)].map(async (name) => (await picture(name)).length),
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(1_800_000);
});

/** runs in the page: styles after the dashboard's own, instead of those before */
function addStyles(styles: string): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(styles);
  document.adoptedStyleSheets = [sheet];
}

let asStored: boolean | undefined;

/** whether this browser draws what is not the dashboard's like the one that took the pictures */
async function drawsAsStored(): Promise<boolean> {
  asStored ??= (await differenceFrom("specimen", await pictureOfSpecimen(browser))).pixels <= fewPixels;
  return asStored;
}

async function differenceFrom(name: string, taken: Buffer): Promise<Difference> {
  return differenceOf(pages.page, await picture(name), taken);
}

function picture(name: string): Promise<Buffer> {
  return readFile(pathOf(name));
}

function pathOf(name: string): string {
  return join(stored, `${name}.png`);
}
