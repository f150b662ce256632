/** The output of `sandkeep image ls`, `inspect` and `history`. It escapes all text of the images' makers. */

import { counted } from "../../base/counted.ts";
import { sizeInWords } from "../../base/size-in-words.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { imageKey } from "../../core/model/image.ts";
import { stepsOwner } from "../../runtime/linux/builds/image-builds.ts";
import type { ImageRecord } from "../../runtime/linux/images/images.ts";
import { sizesOf } from "../../runtime/linux/images/sizes.ts";
import type { ImageStores } from "../../runtime/linux/oci/import.ts";
import { historyJson, historyLines, imageTable, shownJson } from "../print/images.ts";
import type { Paper } from "../print/table.ts";

type Stores = Pick<ImageStores, "images" | "layers">;

/** name, layers, size, the part that other images share, and the time of import */
export async function described({ images, layers }: Stores, image: ImageRecord): Promise<string> {
  const { total, shared } = await sizesOf({ images, layers }, image);
  const count = layersOf(image);
  const owner = image.owner === undefined ? "" : ` (${image.owner})`;
  const common = shared > 0 ? ` (${sizeInWords(shared)} shared)` : "";
  const when = new Date(image.createdAt).toISOString();
  return `${image.name}${owner}  ${counted(count, "layer")}  ${sizeInWords(total)}${common}  ${when}`;
}

/** a table of the images; `now` in ms */
export async function listed(stores: Stores, images: ImageRecord[], paper: Paper, now: number): Promise<string[]> {
  const rows = images.map(async (image) => {
    const { name, owner: team = "-", createdAt } = image;
    return { name, team, layers: layersOf(image), size: await sizesOf(stores, image), createdAt };
  });
  return imageTable(await Promise.all(rows), paper, now);
}

/** a list of the images as JSON, with what the table shows */
export async function listedAsJson(stores: Stores, images: ImageRecord[]): Promise<string> {
  return shownJson(await Promise.all(images.map((image) => rowOf(stores, image))));
}

/** one image as JSON, as in the list; `more` is about the command */
export async function asJson(stores: Stores, image: ImageRecord, more: object = {}): Promise<string> {
  return shownJson({ ...(await rowOf(stores, image)), ...more });
}

async function rowOf(stores: Stores, image: ImageRecord) {
  const { name, owner, digest, createdAt } = image;
  return {
    ...{ name, owner, digest: digest && `sha256:${digest}`, layers: layersOf(image) },
    ...{ size: await sizesOf(stores, image), createdAt: new Date(createdAt).toISOString() },
  };
}

/** all stored facts of an image, as JSON */
export async function inspected(stores: Stores, image: ImageRecord): Promise<string> {
  const { name, owner, digest, source, env, user, cwd, config, parts, createdAt } = image;
  const size = await sizesOf(stores, image);
  const record = { name, owner, digest: digest && `sha256:${digest}`, source, size, user, cwd, env, config, parts };
  return shownJson({ ...record, createdAt: new Date(createdAt).toISOString() }, 2);
}

type Made = Pick<ImageRecord, "config" | "parts">;

export function history({ config, parts }: Made): string[] {
  return historyLines(config?.history ?? [], parts);
}

export function historyAsJson({ config, parts }: Made): string {
  return historyJson(config?.history ?? [], parts);
}

function layersOf({ parts, layers }: ImageRecord): number {
  return parts?.length ?? layers.length;
}

/** the team's image of this name; without a team the host's, or else the only one that a team has */
export async function imageNamed(
  { images }: Pick<Stores, "images">,
  name: string,
  { team, verb = "show" }: { team?: string | undefined; verb?: string } = {},
): Promise<ImageRecord> {
  const image = await images.get(team === undefined ? name : imageKey({ name, owner: team }));
  if (image) return image;
  const ofTeams = (await images.list()).filter(
    (each) => each.name === name && each.owner !== undefined && each.owner !== stepsOwner,
  );
  const [first, ...others] = ofTeams;
  if (team === undefined && first && others.length === 0) return first;
  const options = ofTeams.map(({ owner }) => `--team ${owner}`).join(" or ");
  if (team === undefined && first) {
    throw new SandkeepError("invalid", `Cannot ${verb} image "${name}": more than one team has it; add ${options}`);
  }
  const whose = team === undefined ? "" : ` of the team "${team}"`;
  const meant = first ? `; there is one with ${options}` : "";
  throw new SandkeepError("not-found", `Cannot ${verb} image "${name}"${whose}: there is no such image${meant}`);
}
