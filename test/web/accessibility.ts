/**
 * Checks every page with axe, and that none of them scrolls sideways or has a button outside of the window, as people with
 * different windows and themes see it.
 */

import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import type { TestDaemon } from "../harness/daemon.ts";
import { visitPlaces } from "./places.ts";

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

/**
 * what is wrong with any place, and what its page complains about, such as a violation of its content security policy, which
 * is in force; `looksOf` chooses how each place is looked at, by its number
 */
export async function problemsOfPlaces(
  browser: Browser,
  daemon: TestDaemon,
  newcomer: string,
  looksOf: (index: number) => readonly Look[],
): Promise<string[]> {
  const wrong: string[] = [];
  const complaints = await visitPlaces(browser, daemon, newcomer, axe.source, async (page, { name, width }, index) => {
    const chosen = looksOf(index).map((look) => ({ ...look, width: width ?? look.width }));
    wrong.push(...(await problemsOfPage(page, name, chosen)));
  });
  return [...wrong, ...complaints];
}

/** what is wrong with the present page, in which axe is already */
async function problemsOfPage(page: Page, place: string, chosen: readonly Look[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const { width, colorScheme } of chosen) {
    if (page.viewportSize()?.width !== width) await page.setViewportSize({ width, height: 800 });
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
