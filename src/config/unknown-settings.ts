/** Finds variables that look like settings but are not: a misspelt setting would otherwise be ignored silently. */

import { nearestOf } from "../base/similar.ts";
import { settings } from "./config.ts";

/** variables that only clients read */
const ofClients = ["SANDKEEP_URL", "SANDKEEP_CONTEXT"];
const prefix = "SANDKEEP_";

/** a sentence for each */
export function unknownSettings(environment: NodeJS.ProcessEnv): string[] {
  const known = [...Object.values(settings).map(({ env }) => env), ...ofClients];
  const unknown = Object.keys(environment).filter((name) => name.startsWith(prefix) && !known.includes(name));
  return unknown.map((name) => {
    // The prefix would make all of them similar.
    const nearest = nearestOf(
      name.slice(prefix.length),
      known.map((each) => each.slice(prefix.length)),
    );
    const meant = nearest === undefined ? "" : `. Did you mean ${prefix}${nearest}?`;
    return `Ignoring ${name}: there is no such setting${meant}`;
  });
}
