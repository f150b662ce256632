/**
 * The egress process: netd's child, started anew whenever it ends; the daemon may come and go. Its environment:
 *
 *   SANDKEEP_EGRESS_SETTINGS   a file with what the operator says, as the last daemon left it (settings.ts)
 *   SANDKEEP_EGRESS_SOCKET     where the daemon gives settings and policies; without it nobody does
 *   …_SETTINGS_FD, …_SOCKET_FD the same as descriptors that are open already: one that is confined sees no paths of the host
 *   SANDKEEP_EGRESS_LOGS       has a folder for each machine, for its log; without it nothing is written
 */

import { Socket } from "node:net";
import { readNetdMessage } from "../protocols/netd-channel.ts";
import { replies } from "./channel.ts";
import { openControl } from "./control.ts";
import { Egress } from "./egress.ts";
import { Actors } from "./log/actors.ts";
import { newComplaints, tell } from "./log/complaints.ts";
import { LogFiles } from "./log/log-file.ts";
import { newSettings, settingsIn } from "./settings.ts";

process.title = "sandkeep-egress";
const now = () => performance.now();
const env = process.env;
const file = descriptorIn(env.SANDKEEP_EGRESS_SETTINGS_FD) ?? env.SANDKEEP_EGRESS_SETTINGS;
const socket = descriptorIn(env.SANDKEEP_EGRESS_SOCKET_FD) ?? env.SANDKEEP_EGRESS_SOCKET;
const logs = env.SANDKEEP_EGRESS_LOGS;
const complain = newComplaints(now);
const noLog = { decided: () => {}, ended: () => {}, moved: () => {}, unseen: () => {}, flush: async () => {} };
const egress = new Egress({
  settings: newSettings(settingsIn(file), now),
  replies: replies((line) => process.send?.(line)),
  log: logs === undefined ? noLog : new LogFiles({ directory: logs, now: Date.now }),
  now,
  actors: new Actors(),
  complain,
});

// What nobody foresaw has come to nothing for the one connection that it was about; to end would cut off all sandboxes.
process.on("uncaughtException", (error) => complain("Cannot go on with what a sandbox wants:", error));
process.on("message", (message, handle) => {
  egress.handle(readNetdMessage(message), handle instanceof Socket ? handle : undefined);
});
// netd is gone, and with it everything this process was asked to do.
process.on("disconnect", () => process.exit(0));
if (socket !== undefined) {
  // Without it machines with a policy of their own reach nothing, but all others do.
  openControl(socket, egress).catch((error) => tell("Cannot be given policies:", error));
}

function descriptorIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
