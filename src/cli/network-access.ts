/**
 * What a new sandbox may reach, from --allow and --header:
 *
 *   --allow registry.npmjs.org --header 'api.example.com: authorization: Bearer $API_KEY'
 *
 * The values of headers come from variables or files of this side, so that they are in no list of processes and in no
 * shell's history. No error repeats them.
 */

import { readFileSync } from "node:fs";
import { CliError } from "./errors.ts";

interface Rule {
  action: { kind: "set-headers"; headers: Record<string, string> };
}

/** A policy as the API takes it: a line, or an object if domains have rules. */
export type NetworkAccess =
  | string
  | {
      mode: "custom";
      domains: { domain: string; rules: Rule[] }[];
      allowedCidrs: string[];
      deniedCidrs: string[];
    };

/** undefined if neither option is given */
export function networkAccessOf(
  { allow = [], header = [] }: { allow?: string[] | undefined; header?: string[] | undefined },
  environment: NodeJS.ProcessEnv,
): NetworkAccess | undefined {
  if (header.length === 0) return allow.length === 0 ? undefined : allow.join(", ");
  const byDomain = new Map<string, Record<string, string>>();
  for (const text of header) {
    const { domain, name, value } = headerOf(text, environment);
    const headers = byDomain.get(domain) ?? {};
    if (name in headers) throw new CliError(`Cannot use --header "${domain}: ${name}": it is given twice`);
    byDomain.set(domain, { ...headers, [name]: value });
  }
  const words = allow.flatMap((text) => text.split(",")).map((word) => word.trim().toLowerCase());
  const whole = words.find((word) => word === "allow-all" || word === "deny-all");
  if (whole !== undefined) {
    throw new CliError(`Cannot use --allow "${whole}" with --header`, "--allow '*' opens everything public");
  }
  const ranges = words.filter((word) => word.includes("/"));
  const plain = words.filter((word) => !word.includes("/") && !byDomain.has(word));
  return {
    mode: "custom",
    domains: [
      ...[...new Set(plain)].map((domain) => ({ domain, rules: [] })),
      ...[...byDomain].map(([domain, headers]) => ({
        domain,
        rules: [{ action: { kind: "set-headers" as const, headers } }],
      })),
    ],
    allowedCidrs: ranges.filter((word) => !word.startsWith("!")),
    deniedCidrs: ranges.filter((word) => word.startsWith("!")).map((word) => word.slice(1)),
  };
}

const form = "'<domain>: <name>: <value>', such as 'api.example.com: authorization: Bearer $API_KEY'";

function headerOf(text: string, environment: NodeJS.ProcessEnv): { domain: string; name: string; value: string } {
  const [, domain, name, value] = /^\s*([^\s:]+)\s*:\s*([^\s:]+)\s*:\s*(\S.*?)\s*$/s.exec(text) ?? [];
  // The text may be a secret.
  if (domain === undefined || name === undefined || value === undefined)
    throw new CliError(`Cannot use --header: it must be ${form}`);
  return {
    domain: domain.toLowerCase(),
    name: name.toLowerCase(),
    value: expanded(value, `--header "${domain}: ${name}"`, environment),
  };
}

/** a variable, a variable in braces, or a file */
const reference = /\$(?:(\w+)|\{(\w+)\}|\(<\s*([^)]+?)\s*\))/g;

function expanded(value: string, option: string, environment: NodeJS.ProcessEnv): string {
  let isSecret = false;
  const whole = value.replace(reference, (_, plain?: string, braced?: string, file?: string) => {
    isSecret = true;
    if (file !== undefined) return contentOf(file, option);
    const name = plain ?? braced ?? "";
    const found = environment[name];
    if (found) return found;
    throw new CliError(`Cannot use ${option}: the variable ${name} is not set here`);
  });
  if (isSecret) return whole;
  throw new CliError(
    `Cannot use ${option}: its value must name a variable ($NAME) or a file ($(<path)), or every process list shows it`,
    "put the option in single quotes, so that the shell leaves it as it is",
  );
}

/** without the end of its last line */
function contentOf(file: string, option: string): string {
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CliError(`Cannot use ${option}: ${why}`);
  }
}
