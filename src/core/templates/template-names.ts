/** How callers name a template: by its id, or as [team/]name[:tag] in any case. */

import { SandkeepError } from "../model/errors.ts";
import { defaultTag } from "../model/template.ts";

export interface TemplateName {
  /** slug of the team, if the name has one */
  team?: string;
  /** a name or an id */
  name: string;
  tag?: string;
}

const longest = 128;
const nameParts = /^(?:([\w-]+)\/)?([\w-]+)(?::([\w.-]+))?$/;

/** undefined for what no template can be called */
export function parseTemplateName(text: string): TemplateName | undefined {
  if (text.length > 3 * longest) return undefined;
  // Some letters of other scripts become ASCII in lower case, so the text is matched before.
  const [, team, name, tag] = nameParts.exec(text)?.map((part) => part?.toLowerCase()) ?? [];
  if (name === undefined || name.length > longest || (tag !== undefined && !isTag(tag))) return undefined;
  return { name, ...(team !== undefined && { team }), ...(tag !== undefined && { tag }) };
}

/** the name for a new template, the team that it names, and the tags of its build */
export function newTemplateName(
  text: string,
  tags: readonly string[],
): { team: string | undefined; name: string; tags: string[] } {
  const parsed = parseTemplateName(text);
  if (!parsed) {
    throw invalid(
      `"${text.slice(0, 100)}" is not a name of a-z, 0-9, "-" and "_", with or without the team before it and a tag after it`,
    );
  }
  const all = [...(parsed.tag === undefined ? [] : [parsed.tag]), ...tagsOf(tags)];
  return { team: parsed.team, name: parsed.name, tags: all.length === 0 ? [defaultTag] : [...new Set(all)] };
}

/** in lower case, each once */
export function tagsOf(tags: readonly string[]): string[] {
  const wrong = tags.find((tag) => !isTag(tag));
  if (wrong !== undefined) throw invalid(`"${wrong.slice(0, 100)}" is not a tag of a-z, 0-9, ".", "-" and "_"`);
  return [...new Set(tags.map((tag) => tag.toLowerCase()))];
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** a UUID would look like the id of a build */
function isTag(text: string): boolean {
  return /^[\w.-]{1,128}$/.test(text) && !uuid.test(text);
}

function invalid(why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot name the template: ${why}`);
}
