/** Features of E2B that Sandkeep does not have: each is refused with the reason, so that clients do not wait for it. */

import type { Hono } from "hono";
import { Refusal } from "../kit/refusal.ts";
import type { Env } from "./request.ts";

const firstBuilds =
  "a Dockerfile is built by the client's second version of builds: use `e2b template create` or `Template.build()`";
const missing: Record<string, string> = {
  "/templates": firstBuilds,
  "/templates/*": firstBuilds,
  "/events/*": "events and webhooks are those of Sandkeep's own API",
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
