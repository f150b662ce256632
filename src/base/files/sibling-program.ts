/**
 * The path of a module that runs as a thread of its own: TypeScript in a clone, JavaScript in a package, where it is
 * beside all others (scripts/bundle.ts).
 */

import { extname, join } from "node:path";

/** `name` is without its ending, and relative to the folder of the module whose `import.meta` this is */
export function siblingProgram({ dirname, filename }: ImportMeta, name: string): string {
  return join(dirname, `${name}${extname(filename)}`);
}
