/**
 * The filter of the list of sandboxes:
 *
 *   state:running  image:node  tag:suite  tag:suite=api  created:<6h  ends:<15m  via:mcp  is:refused  free text  -anything
 *
 * All words must match. A word that begins with "-" must not match.
 */

import type { Sandbox } from "./live.ts";

type Test = (
  sandbox: Pick<Sandbox, "name" | "state" | "image" | "tags" | "createdAt" | "madeBy"> & {
    session: { expiresAt: number | null };
  },
) => boolean;

/** `refusals` has the names of sandboxes that were refused connections */
export function filterOf(query: string, now: number, refusals: { has(name: string): boolean } = new Set()): Test {
  const tests = query
    .split(/\s+/)
    .filter((word) => word !== "" && word !== "-")
    .map((word) => {
      if (!word.startsWith("-")) return testOf(word, now, refusals);
      const test = testOf(word.slice(1), now, refusals);
      return (sandbox: Parameters<Test>[0]) => !test(sandbox);
    });
  return (sandbox) => tests.every((test) => test(sandbox));
}

function testOf(word: string, now: number, refusals: { has(name: string): boolean }): Test {
  if (word === "is:refused") return ({ name }) => refusals.has(name);
  const [, key = "", value = ""] = /^(state|image|tag|created|ends|via|key):(.+)$/.exec(word) ?? [];
  const wanted = value.toLowerCase().split(",");
  if (key === "state") return ({ state }) => wanted.includes(state);
  if (key === "image") return ({ image }) => wanted.some((part) => (image ?? "").toLowerCase().includes(part));
  if (key === "tag") return ({ tags }) => wanted.some((part) => hasTag(tags, part));
  if (key === "created") return timeTest(value, ({ createdAt }) => now - createdAt);
  if (key === "via") return ({ madeBy }) => wanted.includes(madeBy.wire ?? "");
  if (key === "key") return ({ madeBy }) => madeBy.keyId !== null && wanted.includes(madeBy.keyId.toLowerCase());
  if (key === "ends") return timeTest(value, ({ session }) => (session.expiresAt ?? Number.POSITIVE_INFINITY) - now);
  const text = word.toLowerCase();
  return ({ name, image, tags }) =>
    [name, image ?? "", ...tagsOf(tags)].some((each) => each.toLowerCase().includes(text));
}

function hasTag(tags: Sandbox["tags"], wanted: string): boolean {
  return tagsOf(tags).some((tag) =>
    wanted.includes("=") ? tag.toLowerCase() === wanted : tag.toLowerCase().startsWith(`${wanted}=`),
  );
}

export function tagsOf(tags: Sandbox["tags"]): string[] {
  return Object.entries(tags).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
}

const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** "<6h": whether less than six hours lie between a moment of the sandbox and now */
function timeTest(value: string, msOf: (sandbox: Parameters<Test>[0]) => number): Test {
  const [, sign, count, unit = ""] = /^([<>])(\d+)([smhd])$/.exec(value) ?? [];
  if (sign === undefined) return () => false;
  const limit = Number(count) * (unitMs[unit] ?? 0);
  return (sandbox) => (sign === "<" ? msOf(sandbox) < limit : msOf(sandbox) > limit);
}
