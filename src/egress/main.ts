/**
 * The egress process: netd's child, which netd restarts whenever it ends; it outlives daemons. Its environment:
 *
 *   SANDKEEP_EGRESS_SETTINGS   a file with the operator's settings, as the last daemon left it (settings.ts)
 *   SANDKEEP_EGRESS_SOCKET     socket on which the daemon sends settings and policies; optional
 *   …_SETTINGS_FD, …_SOCKET_FD the same as open descriptors: a confined process sees no paths of the host
 *   SANDKEEP_EGRESS_LOGS       has a folder for each machine, for its log; without it nothing is written
 */

import { Socket } from "node:net";
import { readNetdMessage } from "../protocols/netd-channel.ts";
import { replies } from "./channel.ts";
import { openControl } from "./control.ts";
import { Egress } from "./egress.ts";
import { Actors } from "./log/actors.ts";
import { limitedErrorLog, writeError } from "./log/error-log.ts";
import { LogFiles } from "./log/log-file.ts";
import { newSettings, settingsIn } from "./settings.ts";

process.title = "sandkeep-egress";
const now = () => performance.now();
const env = process.env;
const file = descriptorIn(env.SANDKEEP_EGRESS_SETTINGS_FD) ?? env.SANDKEEP_EGRESS_SETTINGS;
const socket = descriptorIn(env.SANDKEEP_EGRESS_SOCKET_FD) ?? env.SANDKEEP_EGRESS_SOCKET;
const logs = env.SANDKEEP_EGRESS_LOGS;
const logError = limitedErrorLog(now);
const noLog = { decided: () => {}, ended: () => {}, moved: () => {}, unseen: () => {}, flush: async () => {} };
const egress = new Egress({
  settings: newSettings(settingsIn(file), now),
  replies: replies((line) => process.send?.(line)),
  log: logs === undefined ? noLog : new LogFiles({ directory: logs, now: Date.now }),
  now,
  actors: new Actors(),
  logError,
});

// An unforeseen error costs one connection; ending the process would cut off all sandboxes.
process.on("uncaughtException", (error) => logError("Cannot serve a sandbox's request:", error));
process.on("message", (message, handle) => {
  egress.handle(readNetdMessage(message), handle instanceof Socket ? handle : undefined);
});
// netd is gone, and with it everything this process was asked to do.
process.on("disconnect", () => process.exit(0));
if (socket !== undefined) {
  // Without it only machines with a policy of their own are cut off.
  openControl(socket, egress).catch((error) => writeError("Cannot receive policies:", error));
}

function descriptorIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
