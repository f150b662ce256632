/** The Linux runtime against the suites about machines and their commands. */

import { bootSuite } from "../conformance/runtime/boot.ts";
import { execSuite } from "../conformance/runtime/exec.ts";
import { inputSuite } from "../conformance/runtime/input.ts";
import { outputSuite } from "../conformance/runtime/output.ts";
import { linuxHost } from "../harness/linux-host.ts";

const host = linuxHost();

bootSuite(host);
execSuite(host);
inputSuite(host);
outputSuite(host);
