/**
 * Checks every page with axe, and that none of them scrolls sideways or has a button outside of the window, as people with
 * different windows and themes see it.
 */

import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import type { TestDaemon } from "../harness/daemon.ts";
import { signedIn } from "./browser.ts";

interface AxeResults {
  violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
}

/** A width of the window, in pixels, and a theme. */
export interface Look {
  width: number;
  colorScheme: "light" | "dark";
}

export const looks: readonly Look[] = [1440, 1024, 390].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({ width, colorScheme })),
);

/** the pages of a daemon with a sandbox "desk", by their address below /ui/ */
export const places = [
  "overview",
  "sandboxes",
  ...["terminal&beside=egress", "commands", "files", "ports", "snapshots", "egress", "usage", "events", "use"].map(
    (tab) => `sandboxes/desk?tab=${tab}`,
  ),
  ...[
    "snapshots",
    "images",
    "drives",
    "egress",
    "usage",
    "keys",
    "events",
    "audit",
    "doctor",
    "nowhere",
    "sandboxes/nothing",
  ],
];

/** what keys open on the list, and its title */
const dialogs = [
  ["?", "Keys"],
  ["Control+k", "Go to, or do"],
  ["n", "New sandbox"],
  ["c", "Columns"],
] as const;

/** what is wrong with any page or dialog; `looksOf` chooses how each is looked at, by its number */
export async function problemsOfPages(
  browser: Browser,
  daemon: TestDaemon,
  looksOf: (index: number) => readonly Look[],
): Promise<string[]> {
  const { page, complaints } = await signedIn(browser, daemon, { bypassCSP: true, reducedMotion: "reduce" });
  const wrong: string[] = [];
  for (const [index, place] of places.entries()) {
    await page.goto(`${daemon.url}/ui/${place}`);
    await page.locator("h1, .empty").first().waitFor({ state: "attached" });
    await page.waitForFunction(() => document.querySelector(".waiting") === null);
    wrong.push(...(await problemsOfPage(page, place, looksOf(index))));
  }
  for (const [index, [key, title]] of dialogs.entries()) {
    await page.goto(`${daemon.url}/ui/sandboxes`);
    await page.getByRole("heading", { name: "Sandboxes" }).waitFor({ state: "attached" });
    await page.keyboard.press(key);
    await page.getByRole("dialog", { name: title }).waitFor();
    wrong.push(...(await problemsOfPage(page, title, looksOf(index))));
  }
  await page.context().close();
  return [...wrong, ...complaints.filter((each) => !each.includes("/sandboxes/nothing"))];
}

/** what is wrong with the present page; it needs a context that ignores the content security policy */
async function problemsOfPage(page: Page, place: string, chosen: readonly Look[]): Promise<string[]> {
  const wrong: string[] = [];
  await page.evaluate(axe.source);
  for (const { width, colorScheme } of chosen) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    // The elements are the same in both themes, and only their colours differ.
    const isOther = chosen.length > 1 && colorScheme === "dark";
    const found = await page.evaluate(problemsInPage, isOther ? ["color-contrast"] : []);
    wrong.push(...found.map((sentence) => `${place} ${colorScheme} ${width}: ${sentence}`));
  }
  return wrong;
}

/** runs in the page; without rules, checks all of them */
async function problemsInPage(rules: string[]): Promise<string[]> {
  const { axe: checker } = globalThis as unknown as {
    axe: { run(where: Document, options: object): Promise<AxeResults> };
  };
  const runOnly = rules.length > 0 ? { runOnly: { type: "rule", values: rules } } : {};
  const { violations } = await checker.run(document, { resultTypes: ["violations"], ...runOnly });
  const lists = [document.documentElement, ...document.querySelectorAll(".connections, .rows")];
  const cut = [...document.querySelectorAll(".ph button, .ph a, td button")].filter(
    (each) => each.getBoundingClientRect().right > innerWidth,
  );
  const isWide = lists.some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
  return [
    ...violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`,
    ),
    ...(isWide ? ["scrolls sideways"] : []),
    ...cut.map(({ textContent }) => `cuts off "${textContent}"`),
  ];
}
