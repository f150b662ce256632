/**
 * Finds the sandbox that a tool call names. A sandbox keeps its name over all its sessions. The connection determines
 * the project (access.ts), so that a model does not have to pass it with each call.
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

/** the current session, or the last one */
export async function sessionOf(call: Call, which: Handle): Promise<Session> {
  return (await find(call, which)).session;
}
