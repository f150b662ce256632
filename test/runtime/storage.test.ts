/** The Linux runtime against the suites about files and snapshots. */

import { filesSuite } from "../conformance/runtime/files.ts";
import { snapshotsSuite } from "../conformance/runtime/snapshots.ts";
import { linuxHost } from "../harness/linux-host.ts";

const host = linuxHost();

filesSuite(host);
snapshotsSuite(host);
