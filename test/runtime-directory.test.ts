/**
 * The Linux runtime on a file system without volumes or limits of its own, here one in memory: the same suites hold,
 * but for the disk limit, which is watched instead of enforced.
 */

import { bootSuite } from "./conformance/runtime/boot.ts";
import { snapshotsSuite } from "./conformance/runtime/snapshots.ts";
import { linuxHost } from "./linux-host.ts";

// where the data directory is made
process.env.TMPDIR = "/dev/shm";

const host = linuxHost({ storage: { kind: "directory" } });

bootSuite(host);
snapshotsSuite(host);
