/** What a sandbox may boot from, by the names that callers use: a runtime, an image, or neither. */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import { imageKey } from "../model/image.ts";
import type { Owner, SandboxBase } from "../model/sandbox.ts";
import type { ImageInfo, Images, PullProgress } from "../ports/images.ts";

const runtimes = ["node24", "node22", "node26", "python3.13"];
/** the runtime that is in every image, unless it was imported without */
const ownRuntime = "node24";

/** What a caller asks to boot from; a runtime and an image exclude each other. */
export interface WantedBase {
  runtime?: string | undefined;
  image?: string | WantedImage | undefined;
  home?: CommandDefaults | undefined;
  /** called as the image is pulled */
  pulling?: ((progress: PullProgress) => void) | undefined;
}

/** An image that a caller asks for, as its dialect understands the name. */
export interface WantedImage {
  /** the name as the caller wrote it */
  name: string;
  /** names under which it may have been imported, best first */
  candidates: string[];
  /** further names of it, which may be aliases */
  others?: string[];
  /** digest that its content must have, as 64 hexadecimal digits */
  digest?: string | undefined;
  /** the team whose image it is, if a service of the core has decided that the caller may use it */
  owner?: string;
  /** whether the default image may run instead, and whether to report that */
  otherwise?: "the-default" | "default-and-say-so";
  /** whether it is looked for here alone, and not in registries */
  isLocal?: boolean;
}

/**
 * The image of this name. One from the default registry goes by its short name here, and "latest" is the usual tag. With
 * a digest it is any image that has this digest; a pull by digest stores one under a tag.
 */
export function wantedImage(name: string): WantedImage {
  const [, pinned = "", digest] = /^([^@]+)@sha256:([0-9a-f]{64})$/.exec(name) ?? [];
  const short = (digest === undefined ? name : pinned)
    .replace(/^(index\.)?docker\.io\/(library\/)?/, "")
    .replace(digest === undefined ? /:latest$/ : /:[^/:]*$/, "");
  if (digest !== undefined) return { name, candidates: [`${short}:sha256-${digest}`], digest };
  const isTagged = /[:@][^/]*$/.test(short);
  return { name, candidates: [...new Set([name, short, ...(isTagged ? [] : [`${short}:latest`])])] };
}

/** User and directory of commands in the default image, if its own are those in `instead`. */
export interface CommandDefaults {
  user: string;
  cwd: string;
  instead: { user: string; cwd: string };
}

/** the team whose images count, besides the host's */
type ImageUser = Pick<Owner, "teamId">;

type ImageContext = Pick<Context, "runtime" | "defaultImage" | "notice"> &
  Partial<Pick<Context, "imageAliases" | "pullPolicy">>;

/**
 * A runtime means the image of that name, if one was imported. Otherwise, and for neither of the two, this is the
 * default image, and the record names the runtime that is really in it. An operator's exact alias goes before an image
 * of that name; an alias with a `*` goes before the default image.
 */
export async function resolveBase(context: ImageContext, owner: ImageUser, wanted: WantedBase): Promise<SandboxBase> {
  const { runtime } = wanted;
  const asked = typeof wanted.image === "string" ? wantedImage(wanted.image) : wanted.image;
  if (runtime !== undefined && asked !== undefined) {
    throw new SandkeepError("invalid", "Invalid request: `runtime` and `image` exclude each other.");
  }
  if (runtime !== undefined && !runtimes.includes(runtime)) {
    throw new SandkeepError("invalid", `Invalid request: \`runtime\` should be one of ${runtimes.join(", ")}.`);
  }
  const { images } = context.runtime;
  const imported = asked
    ? await importedImage(context, owner, asked, wanted.pulling)
    : await images.get(runtime ?? "", owner.teamId);
  const image = imported ?? (await defaultImage(context, asked));
  if (!imported) announce(context, image, { runtime, asked });
  if (asked?.digest !== undefined && !hasDigest(image, asked.digest)) announceOther(context, image, asked);
  const isPlain = wanted.home?.instead.user === image.user && wanted.home.instead.cwd === image.cwd;
  const home = isPlain && (!imported || asked?.otherwise) ? wanted.home : undefined;
  return {
    image: imageKey(image),
    runtime: (imported && runtime) ?? ownRuntime,
    ...(imported && asked && { imageName: image.name }),
    ...(image.digest !== undefined && { digest: image.digest }),
    cwd: home?.cwd ?? (image.cwd || "/"),
    user: home?.user ?? (image.user || "root"),
  };
}

async function importedImage(
  context: ImageContext,
  user: ImageUser,
  asked: WantedImage,
  progress: WantedBase["pulling"],
): Promise<ImageInfo | undefined> {
  const { images } = context.runtime;
  const teamId = asked.owner ?? user.teamId;
  const alias = await aliasOf(context, [asked.name, ...asked.candidates, ...(asked.others ?? [])]);
  if (alias && !alias.pattern.includes("*")) return aliased(context, asked, alias);
  const pinned = await pinnedImage(images, asked, teamId);
  if (pinned) return pinned.name === context.defaultImage && asked.otherwise ? undefined : pinned;
  // An image that the default image may replace is never pulled.
  const mayPull = asked.otherwise === undefined && !asked.isLocal && alias === undefined;
  const { pullPolicy = "never" } = context;
  const pull = mayPull && pullPolicy !== "never" ? images.pull : undefined;
  for (const name of asked.candidates) {
    const image = await images.get(name, teamId);
    if (!image) continue;
    // Only what came from that very place is asked for again: an import or a team's own image never gives way to it.
    const { source, owner } = image;
    if (pullPolicy !== "always" || owner !== undefined || !source) return image;
    return (await pull?.(asked.name, teamId, { onlyIf: source.reference, progress })) ?? image;
  }
  if (alias) return aliased(context, asked, alias);
  return pull?.(asked.name, teamId, { progress });
}

/** the first image here with the digest or one of the names, whatever aliases there are */
export async function imageHere(images: Images, asked: WantedImage, teamId: string): Promise<ImageInfo | undefined> {
  const pinned = await pinnedImage(images, asked, teamId);
  if (pinned) return pinned;
  for (const name of asked.candidates) {
    const image = await images.get(name, teamId);
    if (image) return image;
  }
  return undefined;
}

async function pinnedImage(images: Images, { digest }: WantedImage, teamId: string): Promise<ImageInfo | undefined> {
  return digest === undefined ? undefined : (await images.list(teamId)).find((image) => hasDigest(image, digest));
}

/** compares with the digest of its content here, and with those that its registry shows */
function hasDigest({ digest, source }: ImageInfo, wanted: string | undefined): boolean {
  return [digest, source?.manifest, source?.index].includes(wanted);
}

interface Alias {
  pattern: string;
  /** name of the image */
  image: string;
}

async function aliased({ runtime }: ImageContext, asked: WantedImage, { pattern, image: name }: Alias) {
  const image = await runtime.images.get(name);
  if (image) return image;
  const why = `"${pattern}" is an alias of the image "${name}", which is not here`;
  throw new SandkeepError("invalid", `Invalid request: image "${asked.name}" cannot be used: ${why}.`);
}

/** the most specific alias that matches one of these names; a `*` in it stands for any text */
async function aliasOf({ runtime, imageAliases = {} }: ImageContext, names: string[]): Promise<Alias | undefined> {
  const all = { ...imageAliases, ...(await runtime.images.aliases?.()) };
  const matching = Object.entries(all).filter(([pattern]) => names.some((name) => matches(pattern, name)));
  const [first] = matching.sort(([one], [other]) => letters(other) - letters(one));
  return first && { pattern: first[0], image: first[1] };
}

/** matches without backtracking: finds each piece between the stars after the one before */
function matches(pattern: string, name: string): boolean {
  const [start = "", ...pieces] = pattern.split("*");
  const end = pieces.pop();
  if (end === undefined) return name === pattern;
  if (!name.startsWith(start) || !name.endsWith(end) || name.length < start.length + end.length) return false;
  let rest = name.slice(start.length, name.length - end.length);
  for (const piece of pieces) {
    const at = rest.indexOf(piece);
    if (at < 0) return false;
    rest = rest.slice(at + piece.length);
  }
  return true;
}

function letters(pattern: string): number {
  return pattern.replaceAll("*", "").length + (pattern.includes("*") ? 0 : 1);
}

async function defaultImage(context: ImageContext, asked: WantedImage | undefined): Promise<ImageInfo> {
  const isOurs = asked === undefined || asked.otherwise !== undefined;
  const image = isOurs ? await context.runtime.images.get(context.defaultImage) : undefined;
  if (image) return image;
  const name = asked?.name ?? context.defaultImage;
  // People paste this into a shell, so it has no name that a shell would read in another way.
  const canPull = asked !== undefined && /^\w[\w./:@-]*$/.test(name);
  const how = canPull ? `Pull it with \`sandkeep image pull ${name}\`, or import it` : "Import it";
  throw new SandkeepError(
    "invalid",
    `Invalid request: image "${name}" is not here. ${how} with \`sandkeep image import\`.`,
    { about: { kind: "image", name } },
  );
}

/** reports, once, that callers get another image than they asked for */
function announce(
  { notice }: ImageContext,
  image: ImageInfo,
  { runtime, asked }: { runtime: string | undefined; asked: WantedImage | undefined },
): void {
  const how = (name: string) => `(sandkeep image import <path> --name ${name} brings one)`;
  if (runtime !== undefined && runtime !== ownRuntime) {
    notice(
      `Sandboxes that ask for the runtime "${runtime}" run ${ownRuntime}, of the image "${image.name}": no image is named "${runtime}" ${how(runtime)}`,
    );
  }
  if (asked?.otherwise === "default-and-say-so") {
    const name = asked.candidates.at(-1) ?? asked.name;
    notice(
      `Sandboxes that ask for the image "${asked.name}" run the image "${image.name}": no image is named "${name}" ${how(name)}`,
    );
  }
}

/** reports, once, that an image has another digest: it was imported again, or is another one */
function announceOther({ notice }: ImageContext, image: ImageInfo, asked: WantedImage): void {
  const has = image.digest === undefined ? "which has none" : `which has sha256:${image.digest}`;
  notice(`Sandboxes that ask for the image "${asked.name}" by its digest run the image "${image.name}", ${has}`);
}
