/** Keeps the last result of a pure function of a text, for texts that rarely change, such as the daemon's own address. */

export function keepingLastResult<T>(compute: (text: string) => T): (text: string) => T {
  let last: { text: string; result: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, result: compute(text) };
    return last.result;
  };
}
