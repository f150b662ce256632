/** Starts a launcher, which outlives this process, and connects to it. */

import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { Channel, type ChannelEvents } from "./channel.ts";
import type { LauncherOptions } from "./launcher.ts";

/** how long a launcher may take to start, in ms */
const startTime = 10_000;

/** How a process ended. */
export interface ChildEnd {
  pid: number | undefined;
  how: string;
}

export async function startLauncher(
  options: Pick<LauncherOptions, "run" | "binary" | "egress" | "env">,
  events: ChannelEvents,
  ended: (end: ChildEnd) => void,
): Promise<Channel> {
  makeFolderSync(options.run, 0o700);
  const log = openSync(join(options.run, "launcher.log"), "a", 0o600);
  const child = spawn(options.binary, ["launch", options.run, "--", ...options.egress], {
    detached: true,
    stdio: ["ignore", log, log],
    cwd: "/",
    env: options.env,
  });
  closeSync(log);
  let failed: Error | undefined;
  child.once("error", (error) => {
    failed = error;
  });
  child.once("exit", (code, signal) => {
    ended({ pid: child.pid, how: signal === null ? `ended with code ${code}` : `was ended by ${signal}` });
  });
  child.unref();
  const deadline = Date.now() + startTime;
  for (;;) {
    const channel = await Channel.open(socketOf(options), "the launcher", events).catch(() => undefined);
    if (channel) return channel;
    if (failed || child.exitCode !== null || Date.now() > deadline) {
      const log = join(options.run, "launcher.log");
      throw new SandkeepError("internal", `Cannot start the launcher "${options.binary}": see ${log}`, {
        cause: failed,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function socketOf(options: Pick<LauncherOptions, "run">): string {
  return join(options.run, "launch.sock");
}
