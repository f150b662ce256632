/** How the versions of Vercel's wire differ for sessions: their paths, and the format of commands. */

import type { Command } from "../../../core/model/sandbox.ts";
import * as wire from "../wire.ts";

export interface SessionWords {
  /** the path of a session */
  session: string;
  /** the path for killing one of its commands */
  kill: string;
  /** the name of the schema for running a command */
  runBody: "runBody" | "v1RunBody";
  command(it: Command): object;
}

const session = "/:version{v[234]}/sandboxes/sessions/:sessionId";

export const currentWords: SessionWords = {
  session,
  kill: `${session}/cmd/:commandId/kill`,
  runBody: "runBody",
  command: wire.command,
};
