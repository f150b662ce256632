/**
 * The headers in which the hosted service says how many requests are left. Clients read them to slow down in time. This
 * daemon refuses no request for its rate. It counts by the minute like the hosted service, but never goes below one, so
 * that clients do not wait needlessly.
 */

/** requests per minute that the hosted service allows: for creating or deleting, and for everything else */
const limits = { lifecycle: 20, other: 1000 };
const window = 60_000;
const mostTeams = 1000;

export class RateHeaders {
  readonly #clock: () => number;
  /** requests in the current minute, by team and kind */
  readonly #counts = new Map<string, number>();
  #endsAt = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** counts a request and returns the headers with what is left */
  count(teamId: string, method: string, path: string): Record<string, string> {
    const now = this.#clock();
    if (now >= this.#endsAt || this.#counts.size > mostTeams) this.#counts.clear();
    if (now >= this.#endsAt) this.#endsAt = now + window;
    const isLifecycle = method === "DELETE" || (method === "POST" && /\/sandboxes$/.test(path));
    const kind = isLifecycle ? "lifecycle" : "other";
    const count = (this.#counts.get(`${teamId} ${kind}`) ?? 0) + 1;
    this.#counts.set(`${teamId} ${kind}`, count);
    return {
      "x-ratelimit-limit": String(limits[kind]),
      "x-ratelimit-remaining": String(Math.max(1, limits[kind] - count)),
      "x-ratelimit-reset": String(Math.ceil(this.#endsAt / 1000)),
    };
  }
}
