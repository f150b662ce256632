/** The vendor's command line before the newest: each call starts a Node with a large program, so all of it takes minutes. */

import { commandLineSuite } from "./command-line.ts";

commandLineSuite("3.5.5");
