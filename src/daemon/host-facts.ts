/** Collects the facts that a diagnosis of this host needs, for `sandkeep doctor` and for the daemon's own API. */

import { resolve } from "node:path";
import { cgroupControllers, kernelHas, missing, onPath } from "../../scripts/host-needs.mjs";
import type { Config } from "../config/config.ts";
import { tlsFactsOf } from "../config/tls-settings.ts";
import { type HostFacts, readHost } from "../host/host.ts";
import { egressMain, root } from "../installation/installation.ts";
import { findNativeProgram } from "../installation/native-program.ts";
import { installedBuilds } from "../runtime/linux/host/other-builds.ts";
import { hostView } from "../runtime/linux/images/host-view.ts";
import { heldIn, usualReserve } from "../runtime/linux/storage/disk-room.ts";
import { isReadOnly } from "../runtime/linux/storage/storage.ts";
import { commandAsRoot } from "./greeting.ts";

/** changes nothing; `dataDir` need not exist */
export async function hostFacts(config: Config, dataDir = config.dataDir): Promise<HostFacts> {
  const guest = findNativeProgram({ root, dataDir });
  const egress = [process.execPath, egressMain];
  return readHost({
    dataDir,
    compiled: guest !== undefined,
    limits: { sandboxes: config.maxSandboxes, processes: config.maxProcesses },
    tls: tlsFactsOf(config, Date.now()),
    kernelHas,
    cgroupControllers,
    onPath,
    packages: missing(["run"]).map((need) => ({ name: need.package, why: need.why })),
    view: await hostView().catch(() => undefined),
    reserve: (place) => ({ reserve: config.diskReserve ?? usualReserve(place), held: heldIn(place) }),
    isReadOnly,
    builds: guest === undefined ? [] : installedBuilds({ dataDir: resolve(dataDir), guest, egress }),
    serveAsRoot: commandAsRoot(["serve"], process.env),
  });
}
