/** `sandkeep image pull`: pulls from a registry, with a progress bar on a terminal and lines elsewhere. */

import type { ImageRecord } from "../../runtime/linux/images/images.ts";
import type { ImageStores, ImportOptions } from "../../runtime/linux/oci/import.ts";
import type { RegistrySettings } from "../../runtime/linux/registry/client.ts";
import type { Credentials } from "../../runtime/linux/registry/credentials.ts";
import { pullImage } from "../../runtime/linux/registry/pull.ts";
import { parseReference } from "../../runtime/linux/registry/reference.ts";
import { PullMeter, type PullScreen } from "../print/pull-meter.ts";

/** The registries to pull from, and functions that show progress. */
export interface PullContext extends PullScreen {
  registries(): { settings: RegistrySettings; credentials: Pick<Credentials, "find"> };
}

export async function pull(
  stores: ImageStores,
  context: PullContext,
  name: string,
  options: Pick<ImportOptions, "name" | "owner" | "node">,
): Promise<{ image: ImageRecord; isNew: boolean }> {
  const reference = parseReference(name);
  const meter = new PullMeter(context);
  try {
    return await pullImage(stores, reference, {
      ...options,
      ...context.registries(),
      // A user of this command may name any registry.
      isTrusted: true,
      progress: (line) => meter.say(line),
      received: (bytes, of) => meter.received(bytes, of),
    });
  } finally {
    meter.close();
  }
}
