/**
 * Timing for benchmarks. The machine is shared, so options are measured interleaved in one run and compared with each
 * other. The output has the minimum and the median, and the ratio to the run's own reference.
 */

export interface Series {
  name: string;
  /** milliseconds, in the order measured */
  samples: number[];
}

/** one operation to measure: `run` is timed, and the function that it returns undoes it outside of the measurement */
export interface Subject {
  name: string;
  run(): Promise<(() => Promise<void>) | undefined>;
}

/** measures all subjects in turn, `rounds` times, after a few rounds that do not count */
export async function interleaved(subjects: Subject[], rounds: number, warmUp = 3): Promise<Series[]> {
  const series = subjects.map(({ name }): Series => ({ name, samples: [] }));
  for (let round = -warmUp; round < rounds; round++) {
    for (const [index, subject] of subjects.entries()) {
      const start = performance.now();
      const undo = await subject.run();
      const took = performance.now() - start;
      await undo?.();
      if (round >= 0) series[index]?.samples.push(took);
    }
  }
  return series;
}

export async function timed<T>(use: () => Promise<T>): Promise<{ took: number; result: T }> {
  const start = performance.now();
  const result = await use();
  return { took: performance.now() - start, result };
}

export function median(samples: number[]): number {
  return quantile(samples, 0.5);
}

export function quantile(samples: number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** a table of series, with the ratio of each median to that of the reference */
export function table(title: string, series: Series[], reference?: string): string {
  const base = series.find(({ name }) => name === reference);
  const rows = series.map(({ name, samples }) => [
    name,
    format(Math.min(...samples)),
    format(median(samples)),
    format(quantile(samples, 0.9)),
    base ? `${(median(samples) / median(base.samples)).toFixed(2)} x` : "",
  ]);
  return columns([[title, "min ms", "p50 ms", "p90 ms", base ? `to ${base.name}` : ""], ...rows]);
}

/** a goal, which is the most or the least that the value may be, and whether it was met */
export function verdict(
  what: string,
  value: number,
  goal: number,
  unit: string,
  bound: "most" | "least" = "most",
): string {
  const isMet = bound === "most" ? value <= goal : value >= goal;
  const met = isMet ? "met" : `MISSED by ${Math.abs(value - goal).toFixed(2)} ${unit}`;
  return `  ${met === "met" ? "ok  " : "MISS"} ${what}: ${value.toFixed(2)} ${unit}, goal ${goal} ${unit}${met === "met" ? "" : ` (${met})`}`;
}

function format(milliseconds: number): string {
  return milliseconds.toFixed(2);
}

function columns(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  return rows.map((row) => line(row).trimEnd()).join("\n");
}
