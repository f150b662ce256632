/** Durations for people. */

/** milliseconds in the units of the command line, such as "5m", "1h 30m" or "1500 ms" */
export function durationInWords(ms: number): string {
  if (ms < 1000 || ms % 1000 !== 0) return `${ms} ms`;
  const units = { d: 86_400, h: 3600, m: 60, s: 1 };
  let rest = ms / 1000;
  const parts: string[] = [];
  for (const [unit, seconds] of Object.entries(units)) {
    if (rest >= seconds) parts.push(`${Math.floor(rest / seconds)}${unit}`);
    rest %= seconds;
  }
  return parts.join(" ");
}
