/** The settings of an image that begins with nothing. */

import type { ImageSettings } from "../../../core/builds/build-plan.ts";

export function emptySettings(): ImageSettings {
  return { env: {}, user: "", cwd: "/", entrypoint: [], command: [], ports: [], volumes: [], labels: {} };
}
