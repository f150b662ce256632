/** The output of `sandkeep image ls`, `inspect` and `history`. It escapes all text of the images' makers. */

import { counted } from "../../base/counted.ts";
import { sizeInWords } from "../../base/size-in-words.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { imageKey } from "../../core/model/image.ts";
import { stepsOwner } from "../../runtime/linux/builds/image-builds.ts";
import type { ImageRecord } from "../../runtime/linux/images/images.ts";
import type { ImageStores } from "../../runtime/linux/oci/import.ts";
import { briefly, type Paper, table } from "../print/table.ts";
import { shown } from "./shown.ts";

type Stores = Pick<ImageStores, "images" | "layers">;

/** name, layers, size, the part that other images share, and the time of import */
export async function described({ images, layers }: Stores, image: ImageRecord): Promise<string> {
  const { total, shared } = await sizesOf({ images, layers }, image);
  const count = image.parts?.length ?? image.layers.length;
  const owner = image.owner === undefined ? "" : ` (${image.owner})`;
  const common = shared > 0 ? ` (${sizeInWords(shared)} shared)` : "";
  const when = new Date(image.createdAt).toISOString();
  return `${image.name}${owner}  ${counted(count, "layer")}  ${sizeInWords(total)}${common}  ${when}`;
}

/** a table of the images; `now` in ms */
export async function listed(stores: Stores, images: ImageRecord[], paper: Paper, now: number): Promise<string[]> {
  const rows = images.map(async (image) => {
    const { total, shared } = await sizesOf(stores, image);
    const { name, owner = "-", parts, layers, createdAt } = image;
    const sizes = [sizeInWords(total), shared > 0 ? sizeInWords(shared) : "-"];
    return [name, owner, String(parts?.length ?? layers.length), ...sizes, briefly(now - createdAt)];
  });
  return table(["NAME", "TEAM", "LAYERS", "SIZE", "SHARED", "AGE"], await Promise.all(rows), paper);
}

/** a list of the images as JSON, with what the table shows */
export async function listedAsJson(stores: Stores, images: ImageRecord[]): Promise<string> {
  const rows = images.map(async (image) => {
    const { name, owner, digest, parts, layers, createdAt } = image;
    return {
      ...{ name, owner, digest: digest && `sha256:${digest}`, layers: parts?.length ?? layers.length },
      ...{ size: await sizeOf(stores, image), createdAt: new Date(createdAt).toISOString() },
    };
  });
  return plainJson(await Promise.all(rows));
}

/** all stored facts of an image, as JSON */
export async function inspected(stores: Stores, image: ImageRecord): Promise<string> {
  const { name, owner, digest, source, env, user, cwd, config, parts, createdAt } = image;
  const size = await sizeOf(stores, image);
  const record = { name, owner, digest: digest && `sha256:${digest}`, source, size, user, cwd, env, config, parts };
  return plainJson({ ...record, createdAt: new Date(createdAt).toISOString() }, 2);
}

async function sizeOf(stores: Stores, image: ImageRecord): Promise<{ total: number; shared: number; own: number }> {
  const { total, shared } = await sizesOf(stores, image);
  return { total, shared, own: total - shared };
}

/** JSON itself escapes only the ASCII control characters */
function plainJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(/[\x7f-\x9f\p{Cf}\u2028\u2029]/gu, (sign) =>
    JSON.stringify(sign).slice(1, -1) === sign ? escaped(sign) : sign,
  );
}

/** the steps that made an image, newest first, with the size of each step's layer if the image has layers of its own */
export function history(image: Pick<ImageRecord, "config" | "parts">): string[] {
  const steps = image.config?.history ?? [];
  const hasParts = image.parts !== undefined;
  const parts = [...(image.parts ?? [])];
  // Some tools write no history, or fewer steps than layers.
  if (hasParts && steps.filter(({ isEmpty }) => !isEmpty).length !== parts.length) {
    return parts.map(({ diffId, size }) => `${sizeInWords(size)}  sha256:${diffId}`).reverse();
  }
  const lines = steps.map(({ createdBy, comment, createdAt, isEmpty }) => {
    const when = createdAt === undefined ? "unknown time" : new Date(createdAt).toISOString();
    // The daemon's own builds keep no size for each step.
    const size = isEmpty ? sizeInWords(0) : hasParts ? sizeInWords(parts.shift()?.size ?? 0) : "-";
    return `${when}  ${size}  ${shown(createdBy)}${comment ? `  # ${shown(comment, 80)}` : ""}`;
  });
  return lines.reverse();
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

/** bytes of its unpacked layers, and how many of them other images share */
async function sizesOf({ images, layers }: Stores, image: ImageRecord): Promise<{ total: number; shared: number }> {
  if (!image.parts) return { total: await layers.size(image.layers), shared: 0 };
  const others = (await images.list()).filter((other) => imageKey(other) !== imageKey(image));
  const theirs = new Set(others.flatMap(({ parts = [] }) => parts.map(({ layer }) => layer)));
  const sum = (parts: { size: number }[]) => parts.reduce((bytes, { size }) => bytes + size, 0);
  return { total: sum(image.parts), shared: sum(image.parts.filter(({ layer }) => theirs.has(layer))) };
}

function escaped(sign: string): string {
  return [...sign]
    .flatMap((each) => each.split(""))
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
