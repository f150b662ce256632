/** The vendor's newest command line; older ones are in cli.slow.test.ts and v1/cli.test.ts. */

import { commandLineSuite } from "./command-line.ts";

commandLineSuite("4.5.0");
