/** Thousands of commands and gigabytes of output leave nothing behind. */

import { expectNoLeaks } from "./leaks.ts";

expectNoLeaks({ commands: 4000, output: 2048, machines: 300 });
