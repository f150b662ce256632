/** Which rule of a policy is for a request: the first whose every condition holds. Patterns take linear time, whatever they are. */

import { RE2JS } from "re2js";
import type { PairMatch, RequestRule, TextMatch } from "../../core/network-policy.ts";
import type { Header } from "./headers.ts";

export interface RequestFacts {
  method: string;
  /** path and query as they were sent */
  target: string;
  headers: readonly Header[];
}

/** Patterns would take too long over a request: it is theirs to say what may happen to it, so nothing may. */
export class TooCostly extends Error {
  override readonly name = "TooCostly";
}

/** throws `TooCostly` */
export function ruleFor<R extends RequestRule>(rules: readonly R[], request: RequestFacts): R | undefined {
  const effort = { left: mostEffort };
  return rules.find((rule) => conditionOf(rule)(request, effort));
}

/** characters that are looked at, times the steps that each may take: a few tenths of a second, in which all others wait */
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
    const test = textTest(path);
    // A server may understand "/a/../b" as "/b". A secret goes only to what is meant by its rule in either reading;
    // an answer in the server's place, or a detour, is for whatever might be meant.
    const readings = action.kind === "set-headers" ? "every" : "some";
    all.push(({ target }, effort) => pathReadings(target, readings)[readings]((path) => test(path, effort)));
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
 * the path as it is, as a URL library resolves it, and as a server does that decodes it first. Where every reading has to
 * match, escapes that change nothing but the spelling ("group%2Fproject") do not make another one; where one is enough,
 * they do, and so do slashes that many servers take for one.
 */
function pathReadings(target: string, wanted: "every" | "some"): string[] {
  const [path = ""] = target.split("?", 1);
  const decoded = decodedOf(path);
  const dots = /(^|[/\\])\.{1,2}([/\\]|$)/;
  const more = wanted === "some" ? [decoded, resolved(decoded)].flatMap((each) => [each, merged(each)]) : [];
  return [...new Set([path, resolved(path), ...(dots.test(decoded) ? [resolved(decoded)] : []), ...more])];
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
