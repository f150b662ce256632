/** How busy the processors of a sandbox were in the last ten minutes: from the daemon at first, then from each answer. */

export interface ProcessorSample {
  at: number;
  processors: number;
}

interface Told {
  session: string;
  load: { processors: number } | null;
  samples: readonly ProcessorSample[] | null;
}

/** ten minutes, in ms */
export const sparkTime = 600_000;
/** values of a line over that time */
export const sparkSlots = 60;
/** ms between two samples that are kept; answers may come more often */
const least = 4000;

/** the samples after another answer; a new session begins anew */
export function withSamples(
  before: { session: string; samples: readonly ProcessorSample[] } | undefined,
  told: Told,
  now: number,
): readonly ProcessorSample[] {
  const earlier = told.samples ?? (before?.session === told.session ? before.samples : []);
  const kept = earlier.filter(({ at }) => at > now - sparkTime);
  const last = kept.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  if (!told.load || now - last < least) return kept;
  return [...kept, { at: now, processors: told.load.processors }];
}

/** the line's values, one for each ten seconds since the first sample; between two samples the later one counts */
export function sparkOf(samples: readonly ProcessorSample[], now: number): number[] {
  const [first] = samples;
  if (!first) return [];
  const step = sparkTime / sparkSlots;
  const count = Math.min(sparkSlots, Math.ceil((now - first.at) / step) + 1);
  let next = 0;
  return Array.from({ length: count }, (_, index) => {
    const end = now - (count - 1 - index) * step;
    while (next < samples.length - 1 && (samples[next]?.at ?? 0) < end - step / 2) next++;
    return samples[next]?.processors ?? 0;
  });
}
