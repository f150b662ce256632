/**
 * The one way to change the state of a session: apply an event of states.ts. It is stored before followers see it.
 */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import type { SessionChanges } from "../ports/store.ts";
import { isOver, type SessionEvent, transitions } from "./states.ts";

export class Transitions {
  readonly #context: Pick<Context, "store" | "events">;

  constructor(context: Pick<Context, "store" | "events">) {
    this.#context = context;
  }

  /** the updated session; undefined if the event cannot happen in its state, which then does not change */
  async apply({ id }: Pick<Session, "id">, event: SessionEvent, changes: SessionChanges): Promise<Session | undefined> {
    const { from, to } = transitions[event];
    const { store } = this.#context;
    const moved = isOver(to)
      ? await store.endSession(id, from, to, changes)
      : await store.moveSession(id, from, to, changes);
    if (moved) this.#publish(moved);
    return moved;
  }

  /** call for a session that was just stored */
  begun(session: Session): void {
    this.#publish(session);
  }

  #publish({ id, projectId, sandboxId, sandboxName, state, endCause, endReason }: Session): void {
    const end = isOver(state) && endCause !== undefined ? { cause: endCause, reason: endReason ?? "" } : {};
    const about = { sandbox: sandboxName, sandboxId, sessionId: id };
    this.#context.events.publish(projectId, { type: `session.${state}`, ...about, ...end });
  }
}
