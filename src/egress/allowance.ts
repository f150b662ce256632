/** How often something may be done: so many times at once, and then so many times a second. */

export interface Allowance {
  /** whether it may be done once more now */
  take(): boolean;
}

export function newAllowance(options: { atOnce: number; perSecond: number; now: () => number }): Allowance {
  const { atOnce, perSecond, now } = options;
  let left = atOnce;
  let at = now();
  return {
    take() {
      const time = now();
      left = Math.min(atOnce, left + ((time - at) / 1000) * perSecond);
      at = time;
      if (left < 1) return false;
      left--;
      return true;
    },
  };
}
