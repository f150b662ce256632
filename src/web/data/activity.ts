/**
 * What the sandboxes in view do: the last command of each, the load of those that run, and the traffic of sessions that
 * are not over. Only rows that can be seen are asked for, a few seconds apart and after commands that begin or end. In
 * a list that is sorted by traffic, each question also asks for some of the other rows.
 */

import { batch, type Signal, signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { sumOf, type Traffic } from "../egress/verdict.ts";
import { client } from "../session.ts";
import { everything, onChange, type Sandbox } from "./live.ts";
import { type ProcessorSample, sparkTime, withSamples } from "./processor-samples.ts";

type Told = Output<"listActivity">["activity"][number];

export interface Activity extends Omit<Told, "samples"> {
  /** busy processors of its current session in the last ten minutes, oldest first */
  samples: readonly ProcessorSample[];
}

const every = 5000;
const mostNames = 100;
/** ms between a command that begins or ends and the question about it */
const patience = 300;
/** ms without a sample after which the daemon is asked for those of the time between */
const longestGap = 30_000;

const known = new Map<string, Signal<Activity | undefined>>();
let inView: readonly string[] = [];

export function activityOf(name: string): Activity | undefined {
  return entryOf(name).value;
}

/** bytes of all its sessions; of the current one as far as this page has asked */
export function trafficOf({ name, session, totals }: Pick<Sandbox, "name" | "session" | "totals">): Traffic {
  const told = entryOf(name).value;
  const isCounted = session.use !== null || told?.session !== session.id;
  return isCounted || !told.traffic ? totals : sumOf([totals, told.traffic]);
}

/** says which sandboxes can be seen */
export function look(names: readonly string[]): void {
  const isNew = names.some((name) => !known.get(name)?.peek());
  inView = names.slice(0, mostNames);
  if (isNew) soon();
}

/** asks while a list is shown, and while `needsAll()` also for rows out of view; returns how to stop */
export function watchActivity(needsAll: () => boolean): () => void {
  const ticking = setInterval(() => !document.hidden && void ask(needsAll()), every);
  const stop = onChange(({ type }) => type.startsWith("command.") && soon());
  return () => {
    clearInterval(ticking);
    stop();
    inView = [];
  };
}

function entryOf(name: string): Signal<Activity | undefined> {
  const entry = known.get(name) ?? signal<Activity | undefined>(undefined);
  known.set(name, entry);
  return entry;
}

let isWaiting = false;

function soon(): void {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(() => {
    isWaiting = false;
    void ask(false);
  }, patience);
}

let isAsking = false;

async function ask(needsOthers: boolean): Promise<void> {
  if (isAsking || inView.length === 0) return;
  isAsking = true;
  const names = needsOthers ? [...inView, ...others(mostNames - inView.length)] : inView;
  const [first = [], later = []] = [true, false].map((isNew) => names.filter((name) => isUnknown(name) === isNew));
  try {
    const answers = await Promise.all([answersFor(first, { lately: sparkTime }), answersFor(later)]);
    batch(() => {
      for (const told of answers.flat()) {
        const entry = entryOf(told.sandbox);
        entry.value = { ...told, samples: withSamples(entry.peek(), told, Date.now()) };
      }
    });
  } catch {
    // The rows keep what they show; the bar at the top says that there is no answer.
  } finally {
    isAsking = false;
  }
}

/** whether what its processors did before is unknown: it was never in view, or not for some time */
function isUnknown(name: string): boolean {
  const told = known.get(name)?.peek();
  return !told || (told.load !== null && Date.now() - (told.samples.at(-1)?.at ?? 0) > longestGap);
}

async function answersFor(sandbox: string[], more: { lately?: number } = {}): Promise<readonly Told[]> {
  if (sandbox.length === 0) return [];
  return (await client.call("listActivity", { query: { sandbox, ...more } })).activity;
}

/** where the next question about rows out of view begins */
let turn = 0;

/** some rows out of view whose sessions are not over, each in its turn */
function others(most: number): string[] {
  const open = everything.peek().filter(({ name, session }) => session.use === null && !inView.includes(name));
  if (turn >= open.length) turn = 0;
  const chosen = open.slice(turn, turn + most).map(({ name }) => name);
  turn += chosen.length;
  return chosen;
}
