/**
 * The headers in which the hosted service tells how many requests are left. Clients read them to slow down in time. Here
 * nothing is refused for being asked often: what is left is counted as the hosted service does, by the minute, and never
 * falls below one, so that no client waits for nothing.
 */

/** requests a minute that the hosted service allows: to create or delete, and of any other kind */
const limits = { lifecycle: 20, other: 1000 };
const window = 60_000;
const mostTeams = 1000;

export class RateHeaders {
  readonly #clock: () => number;
  /** requests of the running minute, by team and kind */
  readonly #counts = new Map<string, number>();
  #endsAt = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** counts a request and tells what is left after it */
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
