/** Turns the issues that a schema finds in a request into a sentence. */

import type { z } from "zod";

/** a sentence about the first issue; a schema sets `isWhole` in its params to have its own sentence stand alone */
export function invalidWords(issues: readonly z.core.$ZodIssue[]): string {
  const issue = issues.flatMap((each) => decisive(each, []))[0];
  if (!issue) return "Invalid request.";
  const words = issueWords(issue);
  if (issue.code === "custom" && issue.params?.isWhole) return words;
  return `Invalid request: ${words.length > longestMessage ? `${words.slice(0, longestMessage)}…` : words}`;
}

/** the path of the member that the first issue is about; empty if it is about the whole request */
export function invalidField(issues: readonly z.core.$ZodIssue[]): string {
  const issue = issues.flatMap((each) => decisive(each, []))[0];
  if (!issue) return "";
  return pathWords(issue.code === "unrecognized_keys" ? [...issue.path, issue.keys[0] ?? ""] : issue.path);
}

const longestMessage = 600;

/** for a union, the issues of the branch that matched furthest, with full paths */
function decisive(issue: z.core.$ZodIssue, parent: readonly PropertyKey[]): z.core.$ZodIssue[] {
  const path = [...parent, ...issue.path];
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return [{ ...issue, path }];
  const branches = issue.errors.map((branch) => branch.flatMap((each) => decisive(each, path)));
  // A missing or extra member suggests that the caller meant another branch.
  const misfit = (each: z.core.$ZodIssue) => each.code === "unrecognized_keys" || isMissing(each) || isNever(each);
  const reach = (branch: z.core.$ZodIssue[]) =>
    Math.max(...branch.map((each) => 2 * each.path.length - (branch.some(misfit) ? 3 : 0)));
  const furthest = Math.max(...branches.map(reach));
  const best = branches.filter((branch) => reach(branch) === furthest);
  // When several branches fail equally early, say only that the value has none of the allowed forms.
  return best.length === 1 ? (best[0] ?? []) : [{ ...issue, errors: [], path } as z.core.$ZodIssue];
}

function issueWords(issue: z.core.$ZodIssue): string {
  // Any message that is not zod's comes from one of our schemas.
  if (!/^(Invalid|Too|Unrecognized) /.test(issue.message)) return issue.message;
  const name = `\`${pathWords(issue.path)}\``;
  const subject = issue.path.length === 0 ? "the request" : name;
  switch (issue.code) {
    case "invalid_type":
      if (isMissing(issue)) return `missing required property ${name}.`;
      return `${subject} should be ${typeWords[issue.expected] ?? issue.expected}.`;
    case "too_big":
      return `${subject} should ${most(issue.origin, issue.maximum)}.`;
    case "too_small":
      return `${subject} should ${least(issue.origin, issue.minimum)}.`;
    case "invalid_value":
      return `${subject} should be equal to one of the allowed values ${JSON.stringify(issue.values.join(", "))}.`;
    case "unrecognized_keys":
      return `${issue.path.length === 0 ? "" : `${name} `}should NOT have additional property \`${issue.keys[0]}\`.`;
    case "invalid_format":
      return `${subject} should match pattern "${issue.pattern}".`;
    case "invalid_key":
      return issue.issues[0] ? issueWords({ ...issue.issues[0], path: issue.path }) : `${subject} is not a valid key.`;
    default:
      return `${subject} should have one of the allowed forms.`;
  }
}

/** zod says only in its message that a member is missing */
function isMissing(issue: z.core.$ZodIssue): boolean {
  return issue.code === "invalid_type" && issue.message.endsWith("received undefined");
}

/** a member that this form must not have */
function isNever(issue: z.core.$ZodIssue): boolean {
  return issue.code === "invalid_type" && issue.expected === "never";
}

const typeWords: Record<string, string> = {
  int: "integer",
  record: "object",
};

function most(origin: string, maximum: number | bigint): string {
  if (origin === "array") return `NOT have more than ${maximum} items`;
  if (origin === "string") return `NOT be longer than ${maximum} characters`;
  return `be <= ${maximum}`;
}

function least(origin: string, minimum: number | bigint): string {
  if (origin === "array") return `NOT have fewer than ${minimum} items`;
  if (origin === "string") return `NOT be shorter than ${minimum} characters`;
  return `be >= ${minimum}`;
}

function pathWords(path: readonly PropertyKey[]): string {
  return path
    .map((part, i) => (typeof part === "number" ? `[${part}]` : `${i === 0 ? "" : "."}${String(part)}`))
    .join("");
}
