/** Checks pages with axe, in both themes and three widths, and that none of them scrolls sideways. */

import axe from "axe-core";
import type { Page } from "playwright-core";

interface AxeResults {
  violations: { id: string; nodes: { html: string; failureSummary: string }[] }[];
}

const widths = [1440, 1024, 390];

/** what is wrong with the present page; it needs a context that ignores the content security policy */
export async function accessibilityProblems(page: Page, place: string): Promise<string[]> {
  const wrong: string[] = [];
  await page.evaluate(axe.source);
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      // The elements are the same in both themes, and only their colours differ.
      const found = await page.evaluate(problemsInPage, colorScheme === "light" ? [] : ["color-contrast"]);
      wrong.push(...found.map((sentence) => `${place} ${colorScheme} ${width}: ${sentence}`));
    }
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
  const lists = [document.documentElement, ...document.querySelectorAll(".connections")];
  const isWide = lists.some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
  return [
    ...violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`,
    ),
    ...(isWide ? ["scrolls sideways"] : []),
  ];
}
