/** What a tape draws: its buckets as few shapes, however much has happened. */

import type { Command, Tape } from "../data/history.ts";
import type { Point } from "../sandbox/curve.ts";
import type { Stretch } from "./tape-scale.ts";

type Bucket = Tape["buckets"][number];

export interface Bar extends Stretch {
  /** its class in the style sheet */
  kind: string;
  /** the command that it is; without one it stands for several */
  command?: Command;
}

/** most commands that are drawn one by one */
const mostBars = 600;

/** each command, or, if they are too many or not all known, the buckets in which any ran */
export function commandBars(tape: Tape, commands: readonly Command[], areAll: boolean): Bar[] {
  if (areAll && commands.length <= mostBars) {
    return commands.map((command) => {
      return { from: command.startedAt, to: command.endedAt ?? tape.to, kind: kindOf(command.exitCode), command };
    });
  }
  const kind = ({ commands: { failed } }: Bucket) => (failed > 0 ? "denied" : "done");
  return joined(tape, ({ commands: { running, failed } }) => running + failed > 0, kind);
}

/** connections that were allowed, and those that were refused */
export function connectionBars(tape: Tape): { allowed: Bar[]; refused: Bar[] } {
  return {
    allowed: joined(
      tape,
      ({ egress }) => egress.allowed > 0,
      () => "passed",
    ),
    refused: joined(
      tape,
      ({ egress }) => egress.refused > 0,
      () => "denied",
    ),
  };
}

/** busy processors of a session, where they were measured */
export function processorPoints({ buckets, step }: Tape, { from, to }: Stretch): Point[] {
  const points = buckets.flatMap(({ at, processors }) => {
    const middle = at + step / 2;
    return processors !== null && at + step > from && at < to
      ? [{ at: Math.min(to, Math.max(from, middle)), value: processors }]
      : [];
  });
  const [first] = points;
  return first ? [{ at: from, value: first.value }, ...points.filter(({ at }) => at > from)] : [];
}

function kindOf(exitCode: number | null): string {
  if (exitCode === null) return "going";
  return exitCode === 0 ? "done" : "denied";
}

/** buckets of one kind that follow each other are one bar */
function joined({ buckets, step }: Tape, isWanted: (bucket: Bucket) => boolean, kind: (bucket: Bucket) => string) {
  const bars: Bar[] = [];
  for (const bucket of buckets.filter(isWanted)) {
    const last = bars.at(-1);
    if (last && last.to === bucket.at && last.kind === kind(bucket)) last.to = bucket.at + step;
    else bars.push({ from: bucket.at, to: bucket.at + step, kind: kind(bucket) });
  }
  return bars;
}
