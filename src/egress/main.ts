/** The egress process: netd's child, started anew whenever it ends; the daemon may come and go. */

import { Socket } from "node:net";
import { Actors } from "./actors.ts";
import { addressRules } from "./addresses.ts";
import { parseRequest, replies } from "./channel.ts";
import { newComplaints } from "./complaints.ts";
import { openControl } from "./control.ts";
import { Egress } from "./egress.ts";
import { LogFiles } from "./log-file.ts";
import { settingsFrom } from "./settings.ts";

process.title = "sandkeep-egress";
const settings = settingsFrom(process.env, () => performance.now());
const complain = newComplaints(() => performance.now());
const nowhere = { decided: () => {}, ended: () => {}, moved: () => {}, unseen: () => {}, flush: async () => {} };
const egress = new Egress({
  addresses: addressRules(settings),
  replies: replies((line) => process.send?.(line)),
  resolvers: settings.resolvers,
  log: settings.logs === undefined ? nowhere : new LogFiles({ directory: settings.logs, now: Date.now }),
  now: () => performance.now(),
  roots: settings.roots,
  actors: new Actors(),
  complain,
});

// What nobody foresaw has come to nothing for the one connection that it was about; to end would cut off all sandboxes.
process.on("uncaughtException", (error) => complain("Cannot go on with what a sandbox wants:", error));
process.on("message", (message, handle) => {
  egress.handle(parseRequest(message), handle instanceof Socket ? handle : undefined);
});
// netd is gone, and with it everything this process was asked to do.
process.on("disconnect", () => process.exit(0));
if (settings.socket !== undefined) {
  // Without it machines with a policy of their own reach nothing, but all others do.
  openControl(settings.socket, egress).catch((error) => console.error("Cannot be given policies:", error));
}
