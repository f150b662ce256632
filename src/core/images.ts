/** What a sandbox may boot from, by the names callers use: a runtime, an imported image, or nothing in particular. */

import type { Context } from "./context.ts";
import { SandkeepError } from "./errors.ts";
import type { SandboxBase } from "./sandbox.ts";

const runtimes = ["node24", "node22", "node26", "python3.13"];
/** the one that is in every image, unless it was imported without */
const ownRuntime = "node24";
/** names under which callers mean the default image, unless one of that name was imported */
const universal = ["universal", "ubuntu", "node:24"].flatMap((name) => [name, `vercel/sandbox/${name}`]);

/**
 * `runtime` and `image` exclude each other. A runtime is the image of that name, if one was imported; otherwise it, and
 * neither of the two, is the default image, and the runtime on record is then the one that is really in there.
 */
export async function resolveBase(
  { runtime: { images }, defaultImage, notice }: Pick<Context, "runtime" | "defaultImage" | "notice">,
  { runtime, image: imageName }: { runtime?: string | undefined; image?: string | undefined },
): Promise<SandboxBase> {
  if (runtime !== undefined && imageName !== undefined) {
    throw new SandkeepError("invalid", "Invalid request: `runtime` and `image` exclude each other.");
  }
  if (runtime !== undefined && !runtimes.includes(runtime)) {
    throw new SandkeepError("invalid", `Invalid request: \`runtime\` should be one of ${runtimes.join(", ")}.`);
  }
  const name = imageName ?? runtime;
  const imported = name === undefined ? undefined : await images.get(name);
  const isDefault = imageName === undefined || universal.includes(imageName);
  const image = imported ?? (isDefault ? await images.get(defaultImage) : undefined);
  if (!image) {
    throw new SandkeepError(
      "invalid",
      `Invalid request: image "${imageName ?? defaultImage}" is not here. Import it with \`sandkeep image import\`.`,
    );
  }
  if (runtime !== undefined && runtime !== ownRuntime && !imported) {
    notice(
      `Sandboxes that ask for the runtime "${runtime}" run ${ownRuntime}, of the image "${image.name}": no image is named "${runtime}" (sandkeep image import <path> --name ${runtime} brings one)`,
    );
  }
  return {
    image: image.name,
    runtime: (imported && runtime) ?? ownRuntime,
    ...(imageName !== undefined && { imageName }),
    cwd: image.cwd || "/",
    user: image.user || "root",
  };
}
