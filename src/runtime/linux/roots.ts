/** What the file system of a machine is made of: the layers it boots from, and the drives mounted into it. */

import { join } from "node:path";
import { SandkeepError } from "../../core/errors.ts";
import type { MachineMount, MachineRoot } from "../../core/runtime.ts";
import type { ImageRecord } from "./images.ts";
import type { Parts } from "./parts.ts";
import type { BlankPlan, MountPlan } from "./plan.ts";

export interface BootRoot {
  image: ImageRecord;
  /** ids of the layers above the image, topmost first */
  snapshotLayers: string[];
  /** of all layers, topmost first */
  directories: string[];
}

/** the layers that a machine boots from; they are claimed before they are looked for */
export async function bootRoot(
  { images, snapshots, layers }: Pick<Parts, "images" | "snapshots" | "layers">,
  root: MachineRoot,
  claim: (layer: string) => Promise<void>,
): Promise<BootRoot> {
  const { image, snapshotLayers } =
    "snapshot" in root ? await fromSnapshot(snapshots, root.snapshot) : await fromImage(images, root.image);
  const ids = [...snapshotLayers, ...image.layers];
  for (const id of ids) await claim(id);
  return { image, snapshotLayers, directories: await layers.lowerDirs(ids) };
}

/** drives as they are, or frozen copies that go with the machine */
export function mountPlans(
  { drives, volumes }: Pick<Parts, "drives" | "volumes">,
  plan: BlankPlan,
  mounts: MachineMount[],
): Promise<MountPlan[]> {
  return Promise.all(
    mounts.map(async ({ path, drive, mode }, index) => {
      const readOnly = mode === "snapshot";
      const volume = readOnly ? await volumes.freeze(drives.volume(drive), plan.folder, index) : drives.volume(drive);
      return { path, directory: join(volume, "fs"), readOnly };
    }),
  );
}

async function fromSnapshot(snapshots: Parts["snapshots"], id: string) {
  const { image, snapshot } = await snapshots.chain(id);
  return { image, snapshotLayers: snapshot.layers };
}

async function fromImage(images: Parts["images"], name: string) {
  const image = await images.get(name);
  if (!image) throw new SandkeepError("not-found", `Cannot boot from image "${name}": there is none`);
  return { image, snapshotLayers: [] };
}
