/** Whose an event is: which sandbox it is about. */

import { computed } from "@preact/signals";
import { type Change, changes, everything } from "./live.ts";

/** names of sandboxes by their sessions, since events of commands name only the session */
const owners = computed(() => {
  const found = new Map<unknown, string>();
  for (const { sessionId, sandbox } of changes.value) if (typeof sandbox === "string") found.set(sessionId, sandbox);
  for (const { session, name } of everything.value) found.set(session.id, name);
  return found;
});

/** the name of the sandbox that an event is about */
export function sandboxOf({ sandbox, sessionId }: Change): string | undefined {
  if (typeof sandbox === "string") return sandbox;
  return sessionId === undefined ? undefined : owners.value.get(sessionId);
}
