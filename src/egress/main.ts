/** The egress process: netd's child, started anew whenever it ends, and with no link to the daemon. */

import { Socket } from "node:net";
import { addressRules } from "./addresses.ts";
import { parseRequest, replies } from "./channel.ts";
import { Egress } from "./egress.ts";
import { allowAll } from "./policy.ts";
import { settingsFrom } from "./settings.ts";

process.title = "sandkeep-egress";
const settings = settingsFrom(process.env, () => performance.now());
const egress = new Egress({
  policy: allowAll(addressRules(settings)),
  replies: replies((line) => process.send?.(line)),
  resolvers: settings.resolvers,
});

process.on("message", (message, handle) => {
  egress.handle(parseRequest(message), handle instanceof Socket ? handle : undefined);
});
// netd is gone, and with it everything this process was asked to do.
process.on("disconnect", () => process.exit(0));
