/** The events of a project, for callers with access to it. */

import type { Owner } from "../model/sandbox.ts";
import type { Events, Published } from "./events.ts";

export class ProjectEvents {
  readonly #events: Events;

  constructor(events: Events) {
    this.#events = events;
  }

  /** the kept events, or those after the cursor */
  async page({ projectId }: Owner, after: string | undefined): Promise<{ events: Published[]; next: string }> {
    return this.#events.page(projectId, after);
  }

  /** the events after the cursor, or from now on, until the signal aborts */
  async follow(
    { projectId }: Owner,
    { after, signal }: { after?: string | undefined; signal: AbortSignal },
  ): Promise<AsyncIterable<Published>> {
    return this.#events.follow(projectId, after, signal);
  }
}
