/**
 * The events of the project, for a page. A browser opens only six connections to a daemon that speaks HTTP/1.1, so the
 * tabs of a browser share one stream: the tab that holds a lock reads it, and tells the others.
 *
 *   daemon ──stream──▶ the tab with the lock ──channel──▶ other tabs
 *      ◀──page after the last cursor, once── a tab that missed something
 *
 * Only tabs that can be seen ask for the lock, and a hidden one gives it up after a while. Each event is told with the
 * cursor of the event before it, so a tab notices what it missed. Over plain HTTP to another host browsers have no locks;
 * there each tab that can be seen has a stream of its own.
 */

import { effect } from "@preact/signals";
import type { Output } from "../../client/types.ts";
import { away, client } from "../session.ts";

export type Change = Output<"readEvents">["events"][number];

/** What the tab with the lock tells the others. */
interface Told {
  events?: readonly { event: Change; before: string }[];
  /** since when the daemon has not answered; null if it has */
  away?: number | null;
}

/** ms after which a hidden tab gives up the stream */
const hiddenPatience = 10_000;
/** ms in which events are told together */
const gathering = 20;
const mostSeen = 2000;

/** calls `take` with each event after a cursor, once and in order; returns how to stop */
export function followEvents(team: string, after: string, take: (event: Change) => void): () => void {
  const name = `sandkeep.events.${team}`;
  const channel = new BroadcastChannel(name);
  const seen = new Set<string>();
  let last = after;
  let turn = new AbortController();
  let hiding: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;

  const accept = (event: Change) => {
    if (seen.has(event.cursor)) return;
    seen.add(event.cursor);
    const [oldest = ""] = seen;
    if (seen.size > mostSeen) seen.delete(oldest);
    last = event.cursor;
    take(event);
  };
  let isBehind = false;
  let isReading = false;
  /** reads what was missed, as a page */
  const catchUp = async () => {
    isBehind = true;
    if (isReading) return;
    isReading = true;
    try {
      while (isBehind && !isOver) {
        isBehind = false;
        const { events } = await client.call("readEvents", { query: { after: last } });
        if (!isOver) for (const event of events) accept(event);
      }
    } catch {
      // The next event shows again that something is missing.
    } finally {
      isReading = false;
    }
  };
  channel.onmessage = ({ data }: MessageEvent<Told>) => {
    if (data.away !== undefined) away.value = data.away ?? undefined;
    for (const { event, before } of data.events ?? []) {
      if (before === last) accept(event);
      // A hidden tab reads what it missed when it is seen again.
      else if (!seen.has(event.cursor) && !document.hidden) void catchUp();
    }
  };

  let gathered: { event: Change; before: string }[] = [];
  const tell = (event: Change, before: string) => {
    gathered.push({ event, before });
    if (gathered.length > 1) return;
    setTimeout(() => {
      if (!isOver) channel.postMessage({ events: gathered } satisfies Told);
      gathered = [];
    }, gathering);
  };
  /** reads the stream until the signal aborts */
  const read = async (signal: AbortSignal) => {
    const stopTelling = effect(() => channel.postMessage({ away: away.value ?? null } satisfies Told));
    try {
      while (!signal.aborted) {
        try {
          for await (const event of client.events({ after: last }, signal)) {
            const before = last;
            accept(event);
            tell(event, before);
          }
        } catch {
          if (signal.aborted) return;
          away.value ??= Date.now();
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
      }
    } finally {
      stopTelling();
    }
  };
  const run = () => {
    turn = new AbortController();
    const { signal } = turn;
    if (navigator.locks) {
      // It rejects when the signal aborts while another tab has the lock.
      navigator.locks.request(name, { signal }, () => read(signal)).catch(() => undefined);
    } else void read(signal);
  };
  const shown = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => turn.abort(), hiddenPatience);
    else {
      if (turn.signal.aborted) run();
      void catchUp();
    }
  };
  document.addEventListener("visibilitychange", shown);
  run();
  // What happened since the cursor was read, and before this tab listened to the others.
  void catchUp();
  return () => {
    isOver = true;
    clearTimeout(hiding);
    document.removeEventListener("visibilitychange", shown);
    turn.abort();
    channel.close();
  };
}
