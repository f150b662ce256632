/** What a sandbox may boot from, by the names callers use: a runtime of the default image, or an imported image. */

import type { Context } from "./context.ts";
import { SandkeepError } from "./errors.ts";
import type { SandboxBase } from "./sandbox.ts";

/** the image that needs no download, and what is in it */
export const defaultImage = "host";
const runtimes = ["node24", "node22", "node26", "python3.13"];
const defaultRuntime = "node24";
/** names under which callers mean the default image, unless one of that name was imported */
const universal = ["universal", "ubuntu", "node:24"].flatMap((name) => [name, `vercel/sandbox/${name}`]);

/** `runtime` and `image` exclude each other; neither means the default image */
export async function resolveBase(
  { runtime: store }: Pick<Context, "runtime">,
  wanted: { runtime?: string | undefined; image?: string | undefined },
): Promise<SandboxBase> {
  if (wanted.runtime !== undefined && wanted.image !== undefined) {
    throw new SandkeepError("invalid", "Invalid request: `runtime` and `image` exclude each other.");
  }
  if (wanted.runtime !== undefined && !runtimes.includes(wanted.runtime)) {
    const known = runtimes.join(", ");
    throw new SandkeepError("invalid", `Invalid request: \`runtime\` should be one of ${known}.`);
  }
  const imported = wanted.image === undefined ? undefined : await store.images.get(wanted.image);
  const own = wanted.image === undefined || universal.includes(wanted.image);
  const image = imported ?? (own ? await store.images.get(defaultImage) : undefined);
  if (!image) {
    throw new SandkeepError(
      "invalid",
      `Invalid request: image "${wanted.image}" is not here. Import it with \`sandkeep image import\`.`,
    );
  }
  return {
    image: image.name,
    runtime: wanted.runtime ?? defaultRuntime,
    ...(wanted.image !== undefined && { imageName: wanted.image }),
    cwd: image.cwd || "/",
    user: image.user || "root",
  };
}
