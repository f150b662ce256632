/** The Linux runtime against the suites about limits, the network, pauses and restarts of the daemon. */

import { adoptSuite } from "../conformance/runtime/adopt.ts";
import { egressSuite } from "../conformance/runtime/egress.ts";
import { limitsSuite } from "../conformance/runtime/limits.ts";
import { networkModesSuite } from "../conformance/runtime/network-modes.ts";
import { pausesSuite } from "../conformance/runtime/pauses.ts";
import { linuxHost } from "../harness/linux-host.ts";

const host = linuxHost();

limitsSuite(host);
networkModesSuite(host);
egressSuite(host);
adoptSuite(host);
pausesSuite(host);
