/** The events of a project, for callers who may see it. */

import type { Owner } from "../model/sandbox.ts";
import type { Events, Published } from "./events.ts";

export class ProjectEvents {
  readonly #events: Events;

  constructor(events: Events) {
    this.#events = events;
  }

  /** what has happened after the cursor, or lately */
  async page({ projectId }: Owner, after: string | undefined): Promise<{ events: Published[]; next: string }> {
    return this.#events.page(projectId, after);
  }

  /** what happens after the cursor, or from now on, until the signal aborts */
  async follow(
    { projectId }: Owner,
    { after, signal }: { after?: string | undefined; signal: AbortSignal },
  ): Promise<AsyncIterable<Published>> {
    return this.#events.follow(projectId, after, signal);
  }
}
