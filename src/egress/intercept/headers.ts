/**
 * Headers on their way through: pairs of name and value in the order they came, names as they were written. Headers
 * about a single connection are not passed on; each side has its own framing.
 */

import { alwaysKept, hopByHop } from "../../base/http-headers.ts";

export type Header = [name: string, value: string];

const dropped = new Set([...hopByHop, "http2-settings"]);
const kept = new Set([...alwaysKept, "expect"]);

/** headers that a rule cannot set: the length of a message and the state of its connection */
const unsettable = new Set([...dropped, "content-length", "expect", "trailer"]);

export function valuesOf(headers: readonly Header[], name: string): string[] {
  return headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
}

/** names in lower case */
export function without(headers: readonly Header[], ...names: string[]): Header[] {
  return headers.filter(([name]) => !names.includes(name.toLowerCase()));
}

/** end-to-end headers, without pseudo-headers of HTTP/2 */
export function endToEnd(headers: readonly Header[]): Header[] {
  const named = valuesOf(headers, "connection").flatMap((value) => value.split(","));
  const unsaid = new Set(named.map((name) => name.trim().toLowerCase()).filter((name) => !kept.has(name)));
  return headers.filter(([name]) => {
    const key = name.toLowerCase();
    return !key.startsWith(":") && !dropped.has(key) && !unsaid.has(key);
  });
}

/**
 * Replaces the program's headers of these names, and of names that servers may take for the same: many treat "_" and "-" as
 * equal.
 */
export function overridden(headers: readonly Header[], changes: Record<string, string>): Header[] {
  const set = Object.entries(changes).filter(([name]) => !unsettable.has(name.toLowerCase()));
  const names = new Set(set.map(([name]) => plainName(name)));
  return [...headers.filter(([name]) => !names.has(plainName(name))), ...set];
}

function plainName(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

/** whether the sender understands trailers, the one thing that TE still says */
export function takesTrailers(headers: readonly Header[]): boolean {
  return valuesOf(headers, "te").some((value) => value.split(",").some((word) => /^\s*trailers\s*(;|$)/i.test(word)));
}

/** for HTTP/2: lower-case names, one object; the parts of a cookie stay apart, as HTTP/2 compresses them better */
export function headerObject(headers: readonly Header[]): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const there = object[key];
    object[key] = there === undefined ? value : [...[there].flat(), value];
  }
  return object;
}

/** from HTTP/2 to HTTP/1.1, where a cookie is one header */
export function withOneCookie(headers: readonly Header[]): Header[] {
  const cookies = valuesOf(headers, "cookie");
  return cookies.length < 2 ? [...headers] : [...without(headers, "cookie"), ["cookie", cookies.join("; ")]];
}
