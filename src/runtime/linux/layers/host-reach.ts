/**
 * Keeps an imported layer from reaching directories of the host that its image does not show. A layer that holds the
 * image's own files lies directly above the host's directories. The layer itself contains the entries that hide and
 * place these directories, and the author of the archive may have left them out or changed them.
 */

import { readdir } from "node:fs/promises";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Entry } from "../files/file-entry.ts";
import type { ImageRecord } from "../images/images.ts";
import type { LayerStore } from "./layers.ts";

/** refuses a whole layer that shows more of the host than the image does */
export async function checkHostReach(layers: LayerStore, image: ImageRecord, layer: string): Promise<void> {
  const { own, host } = await layers.sorted(image.layers);
  if (host.length === 0) return;
  const allowed = new Set<string>();
  for (const id of own) {
    await eachEntry(layers, id, (entry) => {
      const place = placeOf(entry);
      if (place !== undefined) allowed.add(place);
    });
  }
  const top = new Map<string, Entry>();
  await eachEntry(layers, layer, (entry) => {
    const place = placeOf(entry);
    if (place !== undefined && !allowed.has(place)) throw refusal(`"${entry.path}" is a directory of the host`);
    if (!entry.path.includes("/")) top.set(entry.path, entry);
  });
  const names = await Promise.all((await layers.lowerDirs(host)).map((directory) => readdir(directory)));
  for (const name of names.flat()) {
    const entry = top.get(name);
    if (!entry || (entry.type === "directory" && !isOpaque(entry)))
      throw refusal(`it does not hide the host's "${name}"`);
  }
}

async function eachEntry(layers: LayerStore, id: string, use: (entry: Entry) => void): Promise<void> {
  const files = await layers.filesAt(id);
  try {
    for await (const { entry } of files.walk("/", { attributes: true })) use(entry);
  } finally {
    files.close();
  }
}

/** the top name in the host's directories that a moved directory shows; undefined where it stays in its parent */
function placeOf(entry: Entry): string | undefined {
  const redirect = attributeOf(entry, "trusted.overlay.redirect");
  if (redirect === undefined) return undefined;
  const parts = redirect.split("/");
  if (parts[0] !== "") return entry.path.includes("/") ? undefined : redirect;
  // A path with empty, "." or ".." parts is never allowed.
  return parts.slice(1).some((part) => part === "" || part === "." || part === "..") ? redirect : parts[1];
}

function isOpaque(entry: Entry): boolean {
  return attributeOf(entry, "trusted.overlay.opaque") === "y";
}

function attributeOf({ attributes }: Entry, name: string): string | undefined {
  return attributes.find((attribute) => attribute.name === name)?.value.toString();
}

function refusal(why: string): SandkeepError {
  return new SandkeepError("invalid", `Cannot import the snapshot: ${why}`);
}
