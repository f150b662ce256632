/** How often something may be done: so many times at once, and then so many times a second; or how much of it. */

export interface Allowance {
  /** whether it may be done once more now */
  take(): boolean;
}

/** One whose pieces differ in what they cost. */
export interface Budget extends Allowance {
  /** counts what is done in any case; at most as much is owed as may be done at once */
  spend(cost: number): void;
  /** how much may be done now; less than none where more was */
  left(): number;
}

export function newAllowance(options: { atOnce: number; perSecond: number; now: () => number }): Budget {
  const { atOnce, perSecond, now } = options;
  let rest = atOnce;
  let at = now();
  const left = () => {
    const time = now();
    rest = Math.min(atOnce, rest + ((time - at) / 1000) * perSecond);
    at = time;
    return rest;
  };
  return {
    take() {
      if (left() < 1) return false;
      rest--;
      return true;
    },
    spend(cost) {
      rest = Math.max(left() - cost, -atOnce);
    },
    left,
  };
}
