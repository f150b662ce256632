/**
 * What the sandboxes in view do: the last command of each, and the load of those that run. Only rows that can be seen are
 * asked for, a few seconds apart and after commands that begin or end.
 */

import { batch, type Signal, signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { client } from "../session.ts";
import { onChange } from "./live.ts";

type Told = Output<"listActivity">["activity"][number];

export interface Activity extends Told {
  /** busy processors, oldest first, since the row was first seen */
  samples: readonly number[];
}

const every = 5000;
/** ten minutes */
const mostSamples = 120;
const mostNames = 100;
/** ms between a command that begins or ends and the question about it */
const patience = 300;

const known = new Map<string, Signal<Activity | undefined>>();
let inView: readonly string[] = [];

export function activityOf(name: string): Activity | undefined {
  return entryOf(name).value;
}

/** says which sandboxes can be seen */
export function look(names: readonly string[]): void {
  const isNew = names.some((name) => !known.get(name)?.peek());
  inView = names.slice(0, mostNames);
  if (isNew) soon();
}

/** asks while a list is shown; returns how to stop */
export function watchActivity(): () => void {
  const ticking = setInterval(() => !document.hidden && void ask(true), every);
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

async function ask(isSample: boolean): Promise<void> {
  if (isAsking || inView.length === 0) return;
  isAsking = true;
  try {
    const { activity } = await client.call("listActivity", { query: { sandbox: [...inView] } });
    batch(() => {
      for (const told of activity) {
        const entry = entryOf(told.sandbox);
        const before = entry.peek()?.samples ?? [];
        const isCounted = told.load !== null && (isSample || before.length === 0);
        const samples = isCounted ? [...before, told.load?.processors ?? 0].slice(-mostSamples) : before;
        entry.value = { ...told, samples };
      }
    });
  } catch {
    // The rows keep what they show; the bar at the top says that there is no answer.
  } finally {
    isAsking = false;
  }
}
