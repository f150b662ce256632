/** Pages of a list: what a query may say, and what an answer says about the next page. */

import { z } from "zod";
import type { Page } from "../../../core/ports/store.ts";
import { wholeNumber } from "./operation.ts";

const usualLimit = 50;
const mostOnPage = 1000;

export const pageQuery = {
  limit: wholeNumber({ min: 1, max: mostOnPage })
    .optional()
    .meta({ description: `Most items of the page, by default ${usualLimit}` }),
  cursor: z
    .string()
    .min(1)
    .max(1024)
    .optional()
    .meta({ description: "`next` of the page before. Items that are added or deleted meanwhile do not move a page" }),
  order: z.enum(["asc", "desc"]).default("desc"),
};

export const next = z.string().nullable().meta({ description: "`cursor` of the next page; null on the last one" });

interface PageParameters {
  limit?: number | undefined;
  cursor?: string | undefined;
  order: "asc" | "desc";
}

/** the page that a query asks for, as the core takes it */
export function pageOf({ limit = usualLimit, cursor, order }: PageParameters) {
  return { limit, order, ...(cursor !== undefined && { cursor }) };
}

/** the items of a page under the name of their list, and the next page's cursor */
export function printPage<N extends string, T, R>(
  name: N,
  { items, next: following }: Page<T>,
  print: (item: T) => R,
): Record<N, R[]> & { next: string | null } {
  const page = { [name]: items.map(print), next: following ?? null };
  // The name is the only computed member.
  return page as Record<N, R[]> & { next: string | null };
}
