/** Features of InstaVM that Sandkeep does not have: callers with a key get an error that says so. */

import type { Hono } from "hono";
import { notOffered } from "./errors.ts";
import type { Env } from "./request.ts";

const missing: Record<string, string> = {
  "/v1/browser/*": "browser automation is",
  "/v1/computeruse/*": "computer use is",
  "/v1/ssh-keys/*": "access by SSH is",
  "/v1/webhooks/*": "webhooks are",
  "/v1/custom-domains/*": "custom domains are",
  "/v1/audit/*": "an audit log is",
  "/v1/sessions/:id/tape/*": "recording is",
  "/v1/vms/:id/tape/*": "recording is",
  "/v1/vms/:id/stage-env": "changing the environment of a VM is",
  "/v1/volumes/:id/checkpoints/*": "a checkpoint of a volume is",
};

export function missingRoutes(app: Hono<Env>): void {
  for (const [path, what] of Object.entries(missing)) {
    app.all(path, () => {
      throw notOffered(what);
    });
  }
}
