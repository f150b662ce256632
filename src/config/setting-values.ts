/** What the value of a setting may look like when it is written as text: numbers, durations, sizes, names, lists. */

import { isIP } from "node:net";
import { resolve } from "node:path";
import { z } from "zod";
import { parseCidr } from "../core/network/cidr.ts";

/** A setting's name and purpose; its schema has the allowed values. */
export interface Setting {
  env: `SANDKEEP_${string}`;
  /** the placeholder of the value in the help; a setting without one is a switch */
  value?: string;
  meaning: string;
  /** its default in words, where the value itself would not explain it */
  preset?: string;
  /** never shown, and never a flag: every user of a host sees the command lines of all */
  secret?: true;
}

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;
export const mebibyte = 2 ** 20;
export const gibibyte = 2 ** 30;

const durationUnits: Record<string, number> = { "": 1, ms: 1, s: second, m: minute, h: hour, d: day };
const sizeUnits: Record<string, number> = { "": 1, K: 2 ** 10, M: mebibyte, G: gibibyte, T: 2 ** 40 };

/** a whole number, written in digits */
export function whole(least: number, most: number) {
  const wanted = `a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, wanted)
    .transform(Number)
    .refine((value) => value >= least && value <= most, wanted);
}

/** a port that clients can use: fetch() of browsers and of Node refuses some, whatever listens there */
export function port() {
  const wanted = "a port that HTTP clients connect to: fetch() refuses this one, as the Fetch standard says";
  return whole(0, 65_535).refine((value) => !portsThatFetchRefuses.has(value), wanted);
}

/** the "bad ports" of the Fetch standard; 0, which takes any free port, is not one here */
const portsThatFetchRefuses = new Set([
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** milliseconds; `also` is a value below the minimum that has a special meaning */
export function duration(least: number, also?: number) {
  const exception = also === undefined ? "" : `${also} or `;
  const examples = ["90s", "5m", "24h", "30d"].filter((text) => amountOf(text, durationUnits) >= least);
  const wanted = `${exception}a duration of at least ${durationText(least)}, such as ${examples.join(" or ")}`;
  return measured(durationUnits, least, wanted, also);
}

function amountOf(text: string, units: Record<string, number>): number {
  return Number.parseInt(text, 10) * (units[text.at(-1) ?? ""] ?? 1);
}

export function durationText(ms: number): string {
  return inLargestUnit(ms, durationUnits);
}

/** in the largest unit that the amount is a whole number of */
function inLargestUnit(amount: number, units: Record<string, number>): string {
  const [unit = "", factor = 1] = Object.entries(units).findLast(([, each]) => amount % each === 0) ?? [];
  return `${amount / factor}${unit}`;
}

/** bytes */
export function size(least: number) {
  const examples = ["512M", "32G"].filter((text) => amountOf(text, sizeUnits) >= least);
  return measured(
    sizeUnits,
    least,
    `a size of at least ${inLargestUnit(least, sizeUnits)}, such as ${examples.join(" or ")}`,
  );
}

function measured(units: Record<string, number>, least: number, wanted: string, also?: number) {
  return z.string().transform((text, context) => {
    const [, digits = "", unit = ""] = /^(\d{1,15}(?:\.\d{1,3})?)([A-Za-z]*)$/.exec(text) ?? [];
    const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
    const value = digits === "" || factor === undefined ? Number.NaN : Math.round(Number(digits) * factor);
    if (Number.isSafeInteger(value) && (value >= least || value === also)) return value;
    context.addIssue({ code: "custom", message: wanted });
    return z.NEVER;
  });
}

/** values separated by commas; the preset if there are none */
export function list<T extends z.ZodType<string, string>>(entry: T, preset: string[] = []) {
  const entries = z.string().transform((text) => text.split(",").map((part) => part.trim()));
  // An error in one entry is an error of the setting.
  return entries
    .pipe(
      z.array(z.string()).superRefine((parts, context) => {
        const wrong = parts.map((part) => entry.safeParse(part)).find((result) => !result.success);
        if (wrong) context.addIssue({ code: "custom", message: wrong.error.issues[0]?.message ?? "a list" });
      }),
    )
    .default(preset);
}

export function name(wanted: string) {
  return z.string().regex(/^[a-z0-9][a-z0-9._:/-]{0,254}$/, wanted);
}

/** absolute; a relative path is resolved against the directory in which the daemon was started */
export function path() {
  return z
    .string()
    .min(1, "a path")
    .transform((text) => resolve(text));
}

export function host() {
  return z.string().refine((text) => isIP(text) !== 0 || isDomain(text), "an address or a host name");
}

export function domain() {
  return z.string().toLowerCase().refine(isDomain, "a domain name such as sandboxes.example.com");
}

function isDomain(text: string): boolean {
  const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i;
  return text.length <= 190 && !/^[\d.]+$/.test(text) && text.split(".").every((part) => label.test(part));
}

/** scheme, host and port: the clients add their paths to it */
export function origin() {
  const wanted = "a URL with http or https and no path, such as https://sandkeep.example.com";
  return z.string().transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const bare = url && url.pathname === "/" && !url.search && !url.hash && !url.username && !url.password;
    if (bare && ["http:", "https:"].includes(url.protocol)) return url.origin;
    context.addIssue({ code: "custom", message: wanted });
    return z.NEVER;
  });
}

/** credentials are a user and a password in the URL, with escapes for what a URL cannot have */
export function proxy() {
  const wanted = "a URL such as http://user:password@proxy.example.com:3128, without a path";
  return z
    .string()
    .transform((text, context) => {
      const url = URL.parse(text);
      const bare = url && url.protocol === "http:" && url.pathname === "/" && !url.search && !url.hash && url.hostname;
      const credentials = url ? credentialsIn(url) : undefined;
      if (bare && credentials !== undefined) {
        const authorization = credentials === "" ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`;
        return { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80), authorization };
      }
      context.addIssue({ code: "custom", message: wanted });
      return z.NEVER;
    })
    .optional();
}

/** "user:password", or empty if both are; undefined if an escape is invalid */
function credentialsIn({ username, password }: URL): string | undefined {
  if (username === "" && password === "") return "";
  try {
    return `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  } catch {
    return undefined;
  }
}

/** "A=1,B=x,y": a comma separates where a name and "=" come after it; what that cannot say is said as a JSON object */
export function variables() {
  const wanted = "variables such as LANG=de_DE.UTF-8,TZ=UTC, or a JSON object of texts";
  const checked = z.record(z.string().regex(/^[^=\0]{1,1024}$/), z.string().regex(/^[^\0]*$/));
  return z
    .string()
    .transform((text, context): Record<string, string> => {
      const found = checked.safeParse(text.startsWith("{") ? jsonOf(text) : variablesIn(text));
      if (found.success) return found.data;
      context.addIssue({ code: "custom", message: wanted });
      return z.NEVER;
    })
    .default({});
}

/** "team/*=host,tools:v1=debian": images by further names for them */
export function aliases() {
  const wanted = "names and images such as team/*=host,tools:v1=debian";
  return z
    .string()
    .transform((text, context): Record<string, string> => {
      const pairs = text
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "")
        .map((part) => /^([a-zA-Z0-9*._/:@-]{1,255})=([a-z0-9][a-z0-9._/:-]{0,127})$/.exec(part)?.slice(1));
      if (pairs.every((pair) => pair !== undefined)) return Object.fromEntries(pairs);
      context.addIssue({ code: "custom", message: wanted });
      return z.NEVER;
    })
    .default({});
}

function variablesIn(text: string): Record<string, string> | undefined {
  const parts = text.split(/,\s*(?=[A-Za-z_][A-Za-z0-9_]*=)/);
  const pairs = parts.map((part) => /^([A-Za-z_][A-Za-z0-9_]*)=([\s\S]*)$/.exec(part)?.slice(1));
  return pairs.every((pair) => pair !== undefined) ? Object.fromEntries(pairs) : undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isResolver(text: string): boolean {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const address = isIP(text) ? text : (bracketed ?? plain ?? "");
  return isIP(address) !== 0 && (port === undefined || (Number(port) > 0 && Number(port) < 65_536));
}

export function isPlace(text: string): boolean {
  return isRange(text) || isDomain(text.replace(/^\*?\./, ""));
}

export function isRange(text: string): boolean {
  return parseCidr(text) !== undefined;
}
