/** Where the versions of Vercel's wire differ about what happens in a session: its path, and what a command looks like. */

import type { Command } from "../../core/model/sandbox.ts";
import * as wire from "./wire.ts";

export interface SessionWords {
  /** the path of a session */
  session: string;
  /** the path at which one of its commands is killed */
  kill: string;
  /** the name of the schema of what is run */
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
