/**
 * How tools name a sandbox: by its name, which stays the same over all its sessions. The project that it is looked for
 * in belongs to the connection (access.ts), so that no model has to carry it from call to call.
 */

import type { Owner, Session } from "../../core/model/sandbox.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { text } from "./schema.ts";
import type { Call } from "./tool.ts";

export const handle = {
  sandbox: text(128).min(1).describe("Name of the sandbox."),
};

export const commandId = text(64).min(1).describe("command_id that run_command returned.");

export interface Handle {
  sandbox: string;
}

export function ownerOf({ core, caller, project }: Call): Promise<Owner> {
  return core.access.owner(caller, { project });
}

export async function find(call: Call, which: Handle): Promise<Booted & { owner: Owner }> {
  const owner = await ownerOf(call);
  return { owner, ...(await call.core.sandboxes.get(owner, which.sandbox)) };
}

/** the session that runs now, or ran last */
export async function sessionOf(call: Call, which: Handle): Promise<Session> {
  return (await find(call, which)).session;
}
