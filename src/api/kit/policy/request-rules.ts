/** Schemas of the rules of a network policy, on every wire: which requests they match, and what they do with them. */

import { z } from "zod";
import type { RequestMatch, TextMatch } from "../../../core/network/network-policy.ts";
import { isPattern } from "./patterns.ts";

/** most regular expressions of a policy: each is checked on input, and may be matched for every request */
export const mostPatterns = 100;
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** values that HTTP can send: Latin-1 without control characters */
export const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

export const headerValues = z
  .record(
    z.string().max(256).regex(token, "the name of a header is not one."),
    z
      .string()
      .max(16 << 10)
      .regex(headerValue, "the value of a header has a line break, or something else that no header may have, in it."),
  )
  .refine((all) => Object.keys(all).length <= 100, "a rule of the network policy has more than 100 headers.");

const textMatch = z
  .strictObject({
    exact: z.string().max(4096).optional(),
    startsWith: z.string().max(4096).optional(),
    regex: z.string().max(1024).optional(),
  })
  .refine((match) => given(match) === 1, "a match should have exactly one of `exact`, `startsWith` and `regex`.");
const pairMatch = z.strictObject({ key: textMatch.optional(), value: textMatch.optional() });

export const requestMatch = z.strictObject({
  path: textMatch.optional(),
  method: z.array(z.string().max(32).regex(token, "a method is not one.")).max(32).optional(),
  queryString: z.array(pairMatch).max(32).optional(),
  headers: z.array(pairMatch).max(32).optional(),
});

type WireMatch = z.output<typeof requestMatch>;

/** the URL that a rule forwards to; `name` is what the wire calls the member */
export function forwardUrl(name: string) {
  return z
    .string()
    .max(4096)
    .refine(isPlainWebUrl, `\`${name}\` should be an http or https URL, without a user or password.`);
}

/** members of an answer that a rule gives itself, besides its status */
export const responseShape = {
  headers: headerValues.optional(),
  body: z
    .string()
    .max(1 << 20)
    .optional(),
  contentType: z
    .string()
    .max(256)
    .regex(headerValue, "`contentType` has something in it that no header may have.")
    .optional(),
};

interface RuleResponse {
  status: number;
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
  contentType?: string | undefined;
}

const ownHeaders = ["connection", "content-length", "transfer-encoding"];
const bodiless = [204, 205, 304];

/** why no rule can give this answer; undefined if one can */
export function responseProblem({ status, headers = {}, body, contentType }: RuleResponse): string | undefined {
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  if (body !== undefined && contentType === undefined) return "`contentType` should be given together with `body`.";
  if (body !== undefined && bodiless.includes(status)) {
    return "a response of status 204, 205 or 304 should NOT have a `body`.";
  }
  if (names.some((name) => ownHeaders.includes(name))) return `a response should NOT set ${ownHeaders.join(", ")}.`;
  return new Set(names).size < names.length ? "a response should NOT set a header twice." : undefined;
}

/** the regular expressions in matches */
export function patternsOf(matches: (WireMatch | undefined)[]): string[] {
  const texts = matches.flatMap((when = {}) => [
    when.path,
    ...[...(when.queryString ?? []), ...(when.headers ?? [])].flatMap(({ key, value }) => [key, value]),
  ]);
  return texts.flatMap((text) => text?.regex ?? []);
}

export function hasSafePatterns(patterns: string[]): boolean {
  return patterns.every(isPattern);
}

/** the core's form of a match */
export function matchOf(wire: WireMatch): RequestMatch {
  const pairs = (all: z.output<typeof pairMatch>[]) =>
    all.map(({ key, value }) => ({
      ...(key !== undefined && { key: textOf(key) }),
      ...(value !== undefined && { value: textOf(value) }),
    }));
  return {
    ...(wire.path !== undefined && { path: textOf(wire.path) }),
    ...(wire.method !== undefined && { method: wire.method }),
    ...(wire.queryString !== undefined && { queryString: pairs(wire.queryString) }),
    ...(wire.headers !== undefined && { headers: pairs(wire.headers) }),
  };
}

function textOf({ exact, startsWith, regex = "" }: z.output<typeof textMatch>): TextMatch {
  if (exact !== undefined) return { exact };
  return startsWith !== undefined ? { startsWith } : { regex };
}

/** the number of members that are set */
function given(value: object): number {
  return Object.values(value).filter((member) => member !== undefined).length;
}

function isPlainWebUrl(value: string): boolean {
  const url = URL.parse(value);
  return url !== null && ["http:", "https:"].includes(url.protocol) && url.username + url.password === "";
}
