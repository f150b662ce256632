/** What the file system of a machine is made of: what its volume begins as, what lies below it, and its drives. */

import { join } from "node:path";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Limits, MachineMount, MachineRoot } from "../../../core/ports/runtime.ts";
import type { Components } from "../components.ts";
import { type ImageRecord, imageReference } from "../images/images.ts";
import { foundation } from "../layers/bases.ts";
import type { MachinePlan, MountPlan } from "./plan.ts";

export interface BootRoot {
  /** the same for roots that look the same */
  key: string;
  image: ImageRecord;
  /** whether it is an image's and not a snapshot's */
  isImage: boolean;
  /** the layer that its volume begins as a copy of; undefined: it begins empty */
  from: string | undefined;
  /** directories below the volume, topmost first */
  layers: string[];
  /** see MachineRecord */
  volume: { whole: boolean; inherited: number };
}

type Stores = Pick<Components, "images" | "snapshots" | "layers">;

/** what a machine boots from; its layers are claimed before they are looked for */
export function bootRoot(stores: Stores, root: MachineRoot, claim: (layer: string) => Promise<void>) {
  return "snapshot" in root ? fromSnapshot(stores, root.snapshot, claim) : fromImage(stores, root.image, claim);
}

/** what prepared machines are booted from in advance; undefined while there is no image of this key */
export async function hotRoot(stores: Stores, name: string, limits: Limits) {
  if (!(await stores.images.get(name))) return undefined;
  // Nothing that has a name is collected, nor what prepared machines need.
  const root = await bootRoot(stores, { image: name }, async () => {});
  const { user, cwd } = root.image;
  return { ...root, reference: imageReference(root.image), user, cwd, limits, sudo: true, mounts: [] };
}

/** drives as they are, or frozen copies that go with the machine */
export function mountPlans(
  { drives, volumes }: Pick<Components, "drives" | "volumes">,
  plan: MachinePlan,
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

async function fromSnapshot(stores: Stores, id: string, claim: (layer: string) => Promise<void>): Promise<BootRoot> {
  const { snapshots, layers } = stores;
  const { snapshot, image, layer } = await snapshots.ready(id, claim);
  // A store without subvolumes measures what is there, and a copy has all of it.
  const inherited = layers.hasVolumes ? snapshot.size : 0;
  const { whole } = snapshot;
  const below = whole ? (await layers.sorted(image.layers)).host : image.layers;
  for (const id of below) await claim(id);
  await layers.lowerDirs([layer]);
  const lower = await lowers(stores, below);
  return {
    key: `${layer} ${lower.join()}`,
    image,
    isImage: false,
    from: layer,
    layers: lower,
    volume: { whole, inherited },
  };
}

async function fromImage(stores: Stores, name: string, claim: (layer: string) => Promise<void>): Promise<BootRoot> {
  const { images, layers } = stores;
  const image = await images.get(name);
  if (!image) throw new SandkeepError("not-found", `Cannot boot from image "${name}": there is no such image`);
  const { base, below } = await foundation(stores, image);
  for (const id of base === undefined ? below : [base, ...below]) await claim(id);
  if (base !== undefined) await layers.lowerDirs([base]);
  const volume = { whole: base !== undefined, inherited: 0 };
  const lower = await lowers(stores, below);
  return { key: `${imageReference(image)} ${lower.join()}`, image, isImage: true, from: base, layers: lower, volume };
}

async function lowers({ layers }: Stores, below: string[]): Promise<string[]> {
  return below.length > 0 ? layers.lowerDirs(below) : [layers.empty];
}
