/**
 * The sandboxes of the project, kept up to date by one event stream. Each sandbox is a signal of its own, so that a change
 * draws one row again. Changes are applied once for each frame, however many events arrive.
 */

import { batch, computed, type Signal, signal } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { away, client } from "../session.ts";

export type Sandbox = Output<"getSandbox">;
export type Change = Output<"readEvents">["events"][number];

/** by name, which is unique in a project */
const known = new Map<string, Signal<Sandbox>>();
/** names, newest first */
export const names = signal<readonly string[]>([]);
/** "loading" until the first list is complete */
export const progress = signal<"loading" | "complete">("loading");
/** the newest events, newest first */
export const changes = signal<readonly Change[]>([]);
/** the current time, for ages and remaining times; changes every second */
export const now = signal(Date.now());

export const running = computed(() => names.value.filter((name) => known.get(name)?.value.state === "running").length);

const mostChanges = 500;
const mostAtOnce = 4;
/** a stream that no one looks at gives its connection to other tabs after this time, in ms */
const hiddenPatience = 10_000;

export function sandbox(name: string): Sandbox | undefined {
  // A view that asks for a name draws itself again when names come and go.
  return names.value.includes(name) ? known.get(name)?.value : undefined;
}

export function all(): Sandbox[] {
  return names.value.flatMap((name) => known.get(name)?.value ?? []);
}

/** called with every event from now on; returns how to stop */
export function onChange(listener: (change: Change) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const listeners = new Set<(change: Change) => void>();

/** begins to follow the project; returns how to stop */
export function startLive(): () => void {
  const ticking = setInterval(() => {
    now.value = Date.now();
  }, 1000);
  let stream = new AbortController();
  let hiding: ReturnType<typeof setTimeout> | undefined;
  let cursor: string | undefined;
  const run = () => {
    stream = new AbortController();
    void followed(stream.signal, cursor, (last) => {
      cursor = last;
    });
  };
  const seen = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => stream.abort(), hiddenPatience);
    else if (stream.signal.aborted) run();
  };
  document.addEventListener("visibilitychange", seen);
  run();
  return () => {
    clearInterval(ticking);
    clearTimeout(hiding);
    document.removeEventListener("visibilitychange", seen);
    stream.abort();
    known.clear();
    batch(() => {
      names.value = [];
      changes.value = [];
      progress.value = "loading";
    });
  };
}

async function followed(signal: AbortSignal, from: string | undefined, reached: (cursor: string) => void) {
  let after = from;
  while (!signal.aborted) {
    try {
      if (after === undefined) {
        // The cursor comes first: what changes while the list is read is then in the stream.
        after = (await client.call("readEvents", { signal })).next;
        await readAll(signal);
      }
      for await (const event of client.events({ after }, signal)) {
        after = event.cursor;
        reached(after);
        if (event.type === "gap") await readAll(signal);
        else take(event);
      }
    } catch {
      if (signal.aborted) return;
      away.value ??= Date.now();
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

async function readAll(signal: AbortSignal): Promise<void> {
  const found: Sandbox[] = [];
  let cursor: string | undefined;
  do {
    const query = { limit: 100, ...(cursor !== undefined && { cursor }) };
    const page = await client.call("listSandboxes", { query, signal });
    found.push(...page.sandboxes);
    cursor = page.next ?? undefined;
    // The first rows show before the last ones are read.
    show(found, cursor === undefined);
  } while (cursor !== undefined);
}

function show(found: readonly Sandbox[], isComplete: boolean): void {
  batch(() => {
    for (const each of found) put(each);
    if (!isComplete) return;
    const present = new Set(found.map(({ name }) => name));
    for (const name of known.keys()) if (!present.has(name)) known.delete(name);
    order();
    progress.value = "complete";
  });
  if (!isComplete) order();
}

function put(value: Sandbox): void {
  const entry = known.get(value.name);
  if (entry) entry.value = value;
  else known.set(value.name, signal(value));
}

function order(): void {
  const sorted = [...known.values()].map((entry) => entry.peek()).sort((a, b) => b.createdAt - a.createdAt);
  names.value = sorted.map(({ name }) => name);
}

/** names of sandboxes to be read again */
const stale = new Set<string>();
const gone = new Set<string>();
let waiting: Change[] = [];
let isScheduled = false;
let reading = 0;

function take(event: Change): void {
  waiting.push(event);
  if (typeof event.sandbox === "string" && !event.type.startsWith("snapshot.")) {
    if (event.type === "sandbox.deleted") gone.add(event.sandbox);
    else gone.delete(event.sandbox);
    stale.add(event.sandbox);
  }
  if (isScheduled) return;
  isScheduled = true;
  // Frames pause in a hidden tab, which must not collect events without end.
  if (document.hidden) setTimeout(apply, 100);
  else requestAnimationFrame(apply);
}

function apply(): void {
  isScheduled = false;
  const taken = waiting;
  waiting = [];
  batch(() => {
    changes.value = [...taken.toReversed(), ...changes.value].slice(0, mostChanges);
    for (const name of gone) {
      known.delete(name);
      stale.delete(name);
    }
    if (gone.size > 0) order();
    gone.clear();
    for (const event of taken) for (const listener of listeners) listener(event);
  });
  refresh();
}

function refresh(): void {
  while (reading < mostAtOnce && stale.size > 0) {
    const [name = ""] = stale;
    stale.delete(name);
    reading++;
    void reread(name).finally(() => {
      reading--;
      refresh();
    });
  }
}

/** reads a sandbox again, such as after a change of our own */
export async function reread(name: string): Promise<void> {
  try {
    const isNew = !known.has(name);
    const value = await client.call("getSandbox", { params: { sandbox: name } });
    batch(() => {
      put(value);
      if (isNew) order();
    });
  } catch (error) {
    if (!(error instanceof Error) || !("status" in error) || error.status !== 404) return;
    known.delete(name);
    order();
  }
}
