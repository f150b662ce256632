/** Finds variables that look like settings but are not: a misspelt setting would otherwise be ignored silently. */

import { nearestOf } from "../base/similar.ts";
import { settings } from "./config.ts";

/** variables that only clients read */
const ofClients = ["SANDKEEP_URL"];

/** a sentence for each */
export function unknownSettings(environment: NodeJS.ProcessEnv): string[] {
  const known = [...Object.values(settings).map(({ env }) => env), ...ofClients];
  const unknown = Object.keys(environment).filter((name) => name.startsWith("SANDKEEP_") && !known.includes(name));
  return unknown.map((name) => {
    const nearest = nearestOf(name, known);
    return `Ignoring ${name}: there is no such setting${nearest === undefined ? "" : `. Did you mean ${nearest}?`}`;
  });
}
