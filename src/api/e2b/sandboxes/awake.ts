/** The sandbox that a request inside it is for. A sleeping sandbox resumes if it was made to wake on traffic. */

import type { Owner } from "../../../core/model/sandbox.ts";
import { idOfLabel } from "../../../core/model/sandbox-label.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import { isAsleep } from "../../../core/sessions/states.ts";
import type { Service } from "../../kit/dialect.ts";

/** undefined if the sandbox sleeps and does not wake on traffic */
export async function awake({ core }: Pick<Service, "core">, owner: Owner, label: string): Promise<Booted | undefined> {
  const sandbox = await core.sandboxes.byId(owner, idOfLabel(label) ?? "");
  const { currentSessionId: id, ingress } = sandbox;
  const session = await (ingress?.wakes ? core.sessions.settled(owner, id) : core.sessions.get(owner, id));
  if (!isAsleep(session.state)) return { sandbox, session };
  const wakes = ingress?.wakes && session.snapshottedAt !== undefined;
  return wakes ? core.sandboxes.resume(owner, sandbox.name) : undefined;
}
