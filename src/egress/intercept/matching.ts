/** Which rule of a policy is for a request: the first whose every condition holds. Patterns take linear time, whatever they are. */

import { RE2JS } from "re2js";
import type { PairMatch, RequestRule, TextMatch } from "../../core/network/network-policy.ts";
import type { Header } from "./headers.ts";

export interface RequestFacts {
  method: string;
  /** path and query as they were sent */
  target: string;
  headers: readonly Header[];
}

/** Matching the patterns would take too long. They decide about the request, so it is refused. */
export class TooCostly extends Error {
  override readonly name = "TooCostly";
}

/** throws `TooCostly` */
export function ruleFor<R extends RequestRule>(rules: readonly R[], request: RequestFacts): R | undefined {
  const effort = { left: mostEffort };
  return rules.find((rule) => conditionOf(rule)(request, effort));
}

/** characters times steps for each: a few tenths of a second, in which all other work waits */
const mostEffort = 16_000_000;

interface Effort {
  left: number;
}

type Condition = (request: RequestFacts, effort: Effort) => boolean;
type TextTest = (text: string, effort: Effort) => boolean;

/** a rule of a policy is compiled at its first request, and forgotten together with its policy */
const conditions = new WeakMap<RequestRule, Condition>();

function conditionOf(rule: RequestRule): Condition {
  const known = conditions.get(rule);
  if (known) return known;
  const made = compile(rule);
  conditions.set(rule, made);
  return made;
}

function compile({ match, action }: RequestRule): Condition {
  if (!match) return () => true;
  const all: Condition[] = [];
  const { path, method, queryString, headers } = match;
  if (path) {
    // A server may understand "/a/../b" as "/b". A secret goes only to what is meant by its rule in either reading;
    // a fixed answer or a forward applies to every possible reading, also without regard to case.
    const test = textTest(path);
    const caseless = textTest(path, true);
    if (action.kind === "set-headers") {
      all.push(({ target }, effort) => certainReadings(target).every((each) => test(each, effort)));
    } else {
      const might: TextTest = (each, effort) => test(each, effort) || caseless(each.toLowerCase(), effort);
      all.push(({ target }, effort) => possibleReadings(target).some((each) => might(each, effort)));
    }
  }
  if (method) {
    const wanted = new Set(method.map((name) => name.toUpperCase()));
    all.push((request) => wanted.has(request.method.toUpperCase()));
  }
  for (const each of queryString ?? []) {
    const test = pairTest(each);
    all.push(({ target }, effort) => [...queryOf(target)].some((pair) => test(pair, effort)));
  }
  for (const each of headers ?? []) {
    const test = pairTest(each, true);
    all.push(({ headers: all }, effort) => all.some(([name, value]) => test([name.toLowerCase(), value], effort)));
  }
  return (request, effort) => all.every((condition) => condition(request, effort));
}

type PairTest = (pair: readonly [string, string], effort: Effort) => boolean;

function pairTest({ key, value }: PairMatch, caseless = false): PairTest {
  const keyTest = key ? textTest(key, caseless) : () => true;
  const valueTest = value ? textTest(value) : () => true;
  return ([name, content], effort) => keyTest(name, effort) && valueTest(content, effort);
}

/** `caseless`: what is tested is in lower case already */
function textTest(match: TextMatch, caseless = false): TextTest {
  if ("regex" in match) {
    const pattern = patternOf(match.regex, caseless);
    const steps = pattern?.programSize() ?? 0;
    return (text, effort) => {
      effort.left -= steps * text.length;
      if (effort.left < 0) throw new TooCostly("Cannot match a request: it is too long for the patterns");
      return pattern?.test(text) ?? false;
    };
  }
  const fold = (text: string) => (caseless ? text.toLowerCase() : text);
  if ("exact" in match) {
    const exact = fold(match.exact);
    return (text) => text === exact;
  }
  const start = fold(match.startsWith);
  return (text) => text.startsWith(start);
}

/** found anywhere in the text unless it is anchored; one that RE2 does not know (the API refuses those) matches nothing */
function patternOf(regex: string, caseless: boolean): RE2JS | undefined {
  try {
    return RE2JS.compile(regex, caseless ? RE2JS.CASE_INSENSITIVE : 0);
  } catch {
    return undefined;
  }
}

/**
 * The paths that a server may take a path for, which differ in more than their spelling: as a URL library resolves it,
 * and where the dots of "/a/../b" are hidden from that: by escapes ("%2e"), escapes of escapes ("%252e"), or parameters
 * of a segment ("..;x"). Escapes that change nothing but the spelling ("group%2Fproject") make no other path.
 */
function certainReadings(target: string): string[] {
  const path = pathOf(target);
  const hidden = closure(path, [decodedOf, withoutParameters]).filter((each) => dots.test(each));
  return [...new Set([path, ...[path, ...hidden].map(resolved)])];
}

/** every path that some server may take it for: spelling counts too, and slashes that many servers take for one */
function possibleReadings(target: string): string[] {
  return closure(pathOf(target), [decodedOf, withoutParameters, resolved, merged]);
}

/** a path that can be read in more ways than these was made for it */
const mostReadings = 32;

/** all paths that result from these steps, applied in any order until nothing new results */
function closure(path: string, steps: ((path: string) => string)[]): string[] {
  const found = new Set([path]);
  for (const each of found) {
    for (const step of steps) found.add(step(each));
    if (found.size > mostReadings) throw new TooCostly("Cannot match a request: its path can be read in too many ways");
  }
  return [...found];
}

const dots = /(^|[/\\])\.{1,2}([/\\]|$)/;

function pathOf(target: string): string {
  return target.split("?", 1)[0] ?? "";
}

/** "/a;v=1/b" is "/a/b" to servers that know parameters of segments */
function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, "");
}

function merged(path: string): string {
  return path.replace(/\/{2,}/g, "/");
}

function resolved(path: string): string {
  return URL.parse(`https://x${path}`)?.pathname ?? path;
}

function decodedOf(path: string): string {
  try {
    return decodeURIComponent(path).replace(/[?#]/g, encodeURIComponent);
  } catch {
    return path;
  }
}

function queryOf(target: string): URLSearchParams {
  const at = target.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : target.slice(at + 1));
}
