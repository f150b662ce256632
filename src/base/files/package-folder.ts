/** The folder of this package, from which its other files are found: in a clone, where Node runs src/, and installed. */

import { findPackageJSON } from "node:module";
import { dirname } from "node:path";

export const packageFolder = dirname(findPackageJSON(import.meta.url) ?? import.meta.dirname);
