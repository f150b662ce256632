/** What the sessions of the last hour say: how many ran in each minute, how many began, and how long a boot took. */

export interface SessionTimes {
  createdAt: number;
  startedAt: number | null;
  endedAt: number | null;
}

export interface RecentBoots {
  /** the most that ran at the same time in each minute, oldest first */
  running: readonly number[];
  /** sessions that began in each minute */
  boots: readonly number[];
  /** median time of a boot, in ms; undefined if there was none */
  p50: number | undefined;
}

const minute = 60_000;
const hour = 60;

/** `sessions` are the newest ones, and all there are if `isComplete` */
export function recentBoots(sessions: readonly SessionTimes[], isComplete: boolean, now: number): RecentBoots {
  const known = isComplete ? now - hour * minute : Math.min(...sessions.map(({ createdAt }) => createdAt));
  const minutes = Math.min(hour, Math.max(1, Math.floor((now - known) / minute)));
  const begin = now - minutes * minute;
  const boots = Array.from({ length: minutes }, () => 0);
  const running = [...boots];
  const times: number[] = [];
  for (const { createdAt, startedAt, endedAt } of sessions) {
    if (startedAt === null) continue;
    const [first, last] = [startedAt, endedAt ?? now].map((at) => Math.floor((at - begin) / minute)) as [
      number,
      number,
    ];
    for (let at = Math.max(0, first); at <= Math.min(last, minutes - 1); at++) running[at] = (running[at] ?? 0) + 1;
    if (startedAt < begin || startedAt > now) continue;
    const at = Math.min(first, minutes - 1);
    boots[at] = (boots[at] ?? 0) + 1;
    times.push(startedAt - createdAt);
  }
  times.sort((a, b) => a - b);
  return { running, boots, p50: times[Math.floor((times.length - 1) / 2)] };
}
