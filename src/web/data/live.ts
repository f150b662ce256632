/**
 * The sandboxes of the project, kept up to date by one event stream. Each sandbox is a signal of its own, so that a change
 * draws one row again. Changes are applied once for each frame, however many events arrive.
 */

import { batch, computed, type Signal, signal } from "@preact/signals";
import { ApiError } from "../../client/client.ts";
import type { Output } from "../../client/types.ts";
import { away, client } from "../session.ts";
import type { Change } from "./stream.ts";

export type { Change } from "./stream.ts";
export type Sandbox = Output<"getSandbox">;

/** by name, which is unique in a project */
const entries = new Map<string, Signal<Sandbox>>();
/** names, newest first */
export const names = signal<readonly string[]>([]);
/** "loading" until the first list is complete */
export const progress = signal<"loading" | "complete">("loading");
/** the newest events, newest first */
export const changes = signal<readonly Change[]>([]);
/** the current time, for ages and remaining times; changes every second */
export const now = signal(Date.now());

/** all sandboxes, newest first; with very many of them, a moment behind their own signals */
export const everything = signal<readonly Sandbox[]>([]);
export const running = computed(() => everything.value.filter(({ state }) => state === "running").length);

const mostChanges = 500;
const mostAtOnce = 4;
/** more changed sandboxes than these are read together */
const few = 20;
/** more sandboxes than these are counted and filtered only every so many ms */
const many = 1000;
const manyPause = 500;

export function sandbox(name: string): Sandbox | undefined {
  const entry = entries.get(name);
  // A view that asks for an unknown name draws itself again when names come and go.
  return entry ? entry.value : void names.value;
}

export function known(name: string): boolean {
  return entries.has(name);
}

/** called with every event from now on; returns how to stop */
export function onChange(listener: (change: Change) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const listeners = new Set<(change: Change) => void>();

/** begins to follow the project; `who` names the visitor, whose tabs share a stream; returns how to stop */
export function startLive(who: string): () => void {
  const ticking = setInterval(() => {
    now.value = Date.now();
  }, 1000);
  const left = new AbortController();
  void followed(who, left.signal);
  return () => {
    clearInterval(ticking);
    left.abort();
    entries.clear();
    postponed = undefined;
    batch(() => {
      names.value = [];
      everything.value = [];
      changes.value = [];
      progress.value = "loading";
    });
  };
}

async function followed(who: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      // The cursor comes first: what changes while the list is read is then in the stream.
      const { events, next } = await client.call("readEvents", { signal });
      const stream = import("./stream.ts");
      changes.value = events.toReversed().slice(0, mostChanges);
      await readAll(signal);
      const { followEvents } = await stream;
      if (signal.aborted) return;
      const stop = followEvents(who, next, (event) => arrived(event, signal));
      signal.addEventListener("abort", stop, { once: true });
      return;
    } catch (error) {
      if (signal.aborted) return;
      const isAnswer = error instanceof ApiError && error.status > 0 && error.status < 500;
      if (!isAnswer) away.value ??= Date.now();
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

/** events that came while the list is read again, which may be newer than the list; undefined otherwise */
let postponed: Change[] | undefined;

function arrived(event: Change, signal: AbortSignal): void {
  if (postponed) postponed.push(event);
  else if (event.type === "gap") void readAgain(signal);
  else take(event);
}

/** reads the list anew after a gap, until that succeeds */
async function readAgain(signal: AbortSignal): Promise<void> {
  postponed = [];
  while (!signal.aborted) {
    try {
      await readAll(signal);
      break;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  const waited = postponed ?? [];
  postponed = undefined;
  if (!signal.aborted) for (const event of waited) arrived(event, signal);
}

async function readAll(signal: AbortSignal): Promise<void> {
  const found: Sandbox[] = [];
  let cursor: string | undefined;
  do {
    // The first page is small, so that rows show soon.
    const query = cursor === undefined ? { limit: 100 } : { limit: 1000, cursor };
    const page = await client.call("listSandboxes", { query, signal });
    found.push(...page.sandboxes);
    cursor = page.next ?? undefined;
    show(found, cursor === undefined);
  } while (cursor !== undefined);
}

function show(found: readonly Sandbox[], isComplete: boolean): void {
  batch(() => {
    for (const each of found) put(each);
    if (!isComplete) return;
    const present = new Set(found.map(({ name }) => name));
    for (const name of entries.keys()) if (!present.has(name)) entries.delete(name);
    progress.value = "complete";
  });
  order();
}

function put(value: Sandbox): void {
  const entry = entries.get(value.name);
  if (entry) entry.value = value;
  else entries.set(value.name, signal(value));
  publish();
}

function order(): void {
  const sorted = [...entries.values()].map((entry) => entry.peek()).sort((a, b) => b.createdAt - a.createdAt);
  batch(() => {
    names.value = sorted.map(({ name }) => name);
    if (entries.size <= many || everything.value.length === 0) everything.value = sorted;
    else publish();
  });
}

let isPublishing = false;

/** brings `everything` up to date soon */
function publish(): void {
  if (isPublishing) return;
  isPublishing = true;
  const pause = entries.size > many ? manyPause : 0;
  setTimeout(() => {
    isPublishing = false;
    everything.value = names.value.flatMap((name) => entries.get(name)?.peek() ?? []);
  }, pause);
}

/** names of sandboxes to be read again */
const stale = new Set<string>();
const gone = new Set<string>();
let waiting: Change[] = [];
let isScheduled = false;
let reading = 0;

/** the last change of a session's state, by the name of its sandbox; shown before the sandbox is read again */
const told = new Map<string, Change>();

function take(event: Change): void {
  waiting.push(event);
  if (typeof event.sandbox === "string" && !event.type.startsWith("snapshot.")) {
    if (event.type === "sandbox.deleted") gone.add(event.sandbox);
    else gone.delete(event.sandbox);
    stale.add(event.sandbox);
    if (event.type.startsWith("session.")) told.set(event.sandbox, event);
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
      entries.delete(name);
      for (const names of [stale, asked, alone]) names.delete(name);
    }
    if (gone.size > 0) order();
    gone.clear();
    for (const event of told.values()) showState(event);
    told.clear();
    for (const event of taken) for (const listener of listeners) listener(event);
  });
  refresh();
}

function showState({ type, sandbox: name, at, reason }: Change): void {
  const entry = entries.get(String(name));
  if (!entry) return;
  const old = entry.peek();
  // The daemon names events after the states.
  const state = type.slice("session.".length) as Sandbox["state"];
  const endReason = typeof reason === "string" ? reason : null;
  put({ ...old, state, stateChangedAt: at, session: { ...old.session, state, endReason } });
}

function refresh(): void {
  if (stale.size > few && !isReadingMany) void readMany();
  while (!isReadingMany && reading < mostAtOnce && stale.size + alone.size > 0) {
    const from = alone.size > 0 ? alone : stale;
    const [name = ""] = from;
    from.delete(name);
    if (leaving.has(name)) continue;
    reading++;
    void reread(name).finally(() => {
      reading--;
      refresh();
    });
  }
}

/** names of sandboxes that are being read together */
let asked = new Set<string>();
/** names of those that were not among the sandboxes whose state changed last */
const alone = new Set<string>();
let isReadingMany = false;

/** reads sandboxes whose state has changed a page at a time, and not more often than this page can show them */
async function readMany(): Promise<void> {
  isReadingMany = true;
  asked = new Set(stale);
  stale.clear();
  try {
    const query = { sortBy: "stateChangedAt" as const, limit: Math.min(1000, asked.size + few) };
    const { sandboxes } = await client.call("listSandboxes", { query });
    let hasNew = false;
    batch(() => {
      for (const each of sandboxes) {
        asked.delete(each.name);
        // A later event is about a later state, and asks for it again.
        if (stale.has(each.name) || leaving.has(each.name)) continue;
        hasNew ||= !entries.has(each.name);
        put(each);
      }
    });
    if (hasNew) order();
  } catch {
    // They are read one by one.
  }
  for (const name of asked) alone.add(name);
  await new Promise((resolve) => setTimeout(resolve, manyPause));
  isReadingMany = false;
  refresh();
}

/** names of sandboxes that this page deletes; asking for them again would only fail */
const leaving = new Set<string>();

export function isLeaving(name: string): boolean {
  return leaving.has(name);
}

/** deletes a sandbox with `work`, which returns whether it did */
export async function leave(name: string, work: () => Promise<boolean>): Promise<boolean> {
  leaving.add(name);
  const isGone = await work();
  leaving.delete(name);
  if (isGone) {
    entries.delete(name);
    stale.delete(name);
    order();
  } else await reread(name);
  return isGone;
}

/** reads a sandbox again, such as after a change of our own */
export async function reread(name: string): Promise<void> {
  try {
    const isNew = !entries.has(name);
    const value = await client.call("getSandbox", { params: { sandbox: name } });
    batch(() => {
      put(value);
      if (isNew) order();
    });
  } catch (error) {
    if (!(error instanceof Error) || !("status" in error) || error.status !== 404) return;
    entries.delete(name);
    order();
  }
}
