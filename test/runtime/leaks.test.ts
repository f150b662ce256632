/** What each command, each piece of output or each machine would leave behind, in an amount that a short run finds. */

import { expectNoLeaks } from "./leaks.ts";

expectNoLeaks({ commands: 600, output: 256, machines: 60 });
