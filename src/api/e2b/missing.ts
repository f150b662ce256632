/** Features of E2B that Sandkeep does not have: each is refused with the reason, so that clients do not wait for it. */

import type { Hono } from "hono";
import { Refusal } from "../kit/refusal.ts";
import type { Env } from "./request.ts";

const missing: Record<string, string> = {
  "/v3/templates": "templates cannot be built through this API: import an image with `sandkeep image import`",
  "/v2/templates/*": "templates cannot be built through this API: import an image with `sandkeep image import`",
  "/templates/*": "templates cannot be built or changed through this API: import an image with `sandkeep image import`",
  "/templates": "templates are not listed by this API: `sandkeep image list` lists what sandboxes can be made from",
  "/v2/templates": "templates are not listed by this API: `sandkeep image list` lists what sandboxes can be made from",
  "/secrets/*":
    "secrets are not kept here: a rule of `network.rules` adds a header to requests, and its value stays outside",
  "/teams/*": "numbers of a team are not kept here",
  "/api-keys/*": "keys are not managed through this API: `sandkeep key` does",
  "/access-tokens/*": "access tokens of people are not managed here: an API key does everything",
};

export function missingRoutes(app: Hono<Env>): void {
  for (const [path, why] of Object.entries(missing)) {
    app.all(path, () => {
      throw new Refusal(400, `Cannot serve this: ${why}`);
    });
  }
}
