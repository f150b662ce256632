/** The image that a template's name means on E2B's wire, where the team has no template or snapshot of this name. */

import { type WantedImage, wantedImage } from "../../core/images/images.ts";
import { interpreterTemplate } from "./interpreter/interpreters.ts";
import { defaultTemplate } from "./wire.ts";

/** templates that clients name by default mean the default image, unless an image of that name was imported */
const usualTemplates = [defaultTemplate, interpreterTemplate];

/**
 * A name without a registry, a tag or a digest is a template's. It is never looked for in a registry: clients build a
 * template that is missing, and a registry may have a stranger's image of that name.
 */
export function imageOfTemplate(name: string): WantedImage {
  return {
    ...wantedImage(name),
    ...(usualTemplates.includes(name) && { otherwise: "the-default" as const }),
    ...(!isOfRegistry(name) && { isLocal: true }),
  };
}

function isOfRegistry(name: string): boolean {
  const [first = "", ...others] = name.split("/");
  const hasRegistry = others.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return hasRegistry || /[:@]/.test(others.at(-1) ?? first);
}
