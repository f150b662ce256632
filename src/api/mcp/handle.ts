/**
 * How tools name a sandbox: by its name, which stays the same over all its sessions, and by its project where that is
 * not the default one.
 */

import { z } from "zod";
import type { Owner, Session } from "../../core/sandbox.ts";
import type { Booted } from "../../core/sandboxes.ts";
import { text } from "./schema.ts";
import type { Call } from "./tool.ts";

export const projectId = z.uuid().optional().describe("UUID of the project; left out, your team's default project.");

export const handle = {
  sandbox: text(128).min(1).describe("Name of the sandbox, as create_sandbox or list_sandboxes gave it."),
  project_id: projectId,
};

export const commandId = text(64).min(1).describe("Id of the command, as run_command gave it: cmd_…");

export interface Handle {
  sandbox: string;
  project_id?: string | undefined;
}

export function ownerOf({ core, caller }: Call, { project_id: project }: Pick<Handle, "project_id">): Promise<Owner> {
  return core.access.owner(caller, { project });
}

export async function find(call: Call, which: Handle): Promise<Booted & { owner: Owner }> {
  const owner = await ownerOf(call, which);
  return { owner, ...(await call.core.sandboxes.get(owner, which.sandbox)) };
}

/** the session that runs now, or ran last */
export async function sessionOf(call: Call, which: Handle): Promise<Session> {
  return (await find(call, which)).session;
}
