/**
 * Sends the events of a project to one webhook, each at least once.
 *
 *   events after the cursor ──▶ deliveries on record, with the new cursor ──▶ attempts, until one succeeds or all failed
 *
 * The record is made before the first attempt, so a restart of the daemon continues where the last one was. While
 * many deliveries wait, no further events are taken; if those are no longer kept by then, a "gap" is sent.
 */

import type { Context } from "../context.ts";
import type { Published } from "../events/events.ts";
import { isSandkeepError, messageOf } from "../model/errors.ts";
import type { Webhook, WebhookDelivery } from "../model/webhook.ts";
import type { WebhookSender } from "../ports/webhooks.ts";
import { isHopeless, pauseAfter } from "./schedule.ts";

/** most deliveries that wait; with more, no events are taken */
const mostWaiting = 500;
/** most deliveries of a webhook on record */
const mostKept = 1000;
/** attempts at a time, unless the webhook fails */
const atOnce = 4;
/** how long events are collected after the first one, in ms */
const collected = 50;
const longestTimer = 2 ** 31 - 1;
/** pause after an error of our own, such as a database that is away, in ms */
const pauseAfterError = 5000;
/** the receiver says that it wants no more */
const goneStatus = 410;

export interface PumpOptions {
  context: Pick<Context, "store" | "events" | "ids" | "now" | "seal" | "logError">;
  sender: WebhookSender;
  random: () => number;
}

export class WebhookPump {
  readonly #options: PumpOptions;
  readonly #id: string;
  readonly #ended = new AbortController();
  #wake = Promise.withResolvers<void>();
  #work: Promise<unknown>;

  constructor(options: PumpOptions, { id, projectId, cursor }: Webhook) {
    this.#options = options;
    this.#id = id;
    this.#work = Promise.all([
      this.#forever(() => this.#take(projectId, cursor)),
      this.#forever(() => this.#deliver()),
    ]);
  }

  /** looks for deliveries that are due */
  wake(): void {
    this.#wake.resolve();
  }

  /** aborts an attempt under way, which the next pump makes again */
  async close(): Promise<void> {
    this.#ended.abort();
    this.wake();
    await this.#work;
  }

  async #forever(work: () => Promise<void>): Promise<void> {
    while (!this.#isEnded) {
      try {
        await work();
      } catch (error) {
        if (this.#isEnded) return;
        this.#options.context.logError(error);
        await this.#pause(pauseAfterError);
      }
    }
  }

  get #isEnded(): boolean {
    return this.#ended.signal.aborted;
  }

  async #take(projectId: string, first: string): Promise<void> {
    const { store, events } = this.#options.context;
    let cursor = (await store.getWebhook(this.#id))?.cursor ?? first;
    while (!this.#isEnded) {
      const arrived = events.arrived(projectId);
      const waiting = (await store.waitingDeliveries(this.#id, mostWaiting)).length;
      if (waiting >= mostWaiting) {
        await this.#pause(pauseAfterError);
        continue;
      }
      const page = await events.page(projectId, cursor);
      const taken = page.events.slice(0, mostWaiting - waiting);
      const last = taken.at(-1);
      if (!last) {
        await this.#pause(longestTimer, arrived);
        await this.#pause(collected);
        continue;
      }
      const webhook = await store.getWebhook(this.#id);
      if (!webhook) return this.#ended.abort();
      const wanted = this.#deliveriesOf(
        taken.filter((event) => isWanted(webhook, event)),
        projectId,
      );
      await store.addDeliveries(this.#id, wanted, last.cursor);
      cursor = last.cursor;
      if (wanted.length > 0) this.wake();
    }
  }

  /** Lists sort by time, then by id, and these share a time: so their ids are in the order of the events. */
  #deliveriesOf(events: Published[], projectId: string): WebhookDelivery[] {
    const { ids, now } = this.#options.context;
    const at = now();
    const sorted = events.map(() => ids.delivery()).sort();
    return events.map((event, index) => {
      const id = sorted[index] ?? ids.delivery();
      return newDelivery({ id, webhookId: this.#id, at }, event.type, event.at, { ...event, projectId });
    });
  }

  async #deliver(): Promise<void> {
    const { store, now } = this.#options.context;
    const under = new Map<string, Promise<void>>();
    while (!this.#isEnded) {
      this.#wake = Promise.withResolvers();
      const webhook = await store.getWebhook(this.#id);
      if (!webhook?.enabled) break;
      const waiting = await store.waitingDeliveries(this.#id, mostWaiting);
      const next = waiting.filter(({ id }) => !under.has(id));
      const due = next.filter(({ dueAt = 0 }) => dueAt <= now());
      const places = (webhook.failingSince === undefined ? atOnce : 1) - under.size;
      for (const delivery of due.slice(0, Math.max(0, places))) {
        const attempt = this.#attempt(webhook, delivery).finally(() => {
          under.delete(delivery.id);
          this.wake();
        });
        under.set(delivery.id, attempt);
        attempt.catch(this.#options.context.logError);
      }
      const [soonest] = next.filter(({ dueAt = 0 }) => dueAt > now());
      const wait = soonest && places > 0 ? Math.max(1, (soonest.dueAt ?? 0) - now()) : longestTimer;
      await this.#pause(Math.min(wait, longestTimer), this.#wake.promise);
    }
    await Promise.allSettled(under.values());
    if (!this.#isEnded) this.#ended.abort();
  }

  async #attempt(webhook: Webhook, delivery: WebhookDelivery): Promise<void> {
    const { context, sender, random } = this.#options;
    const { store, now } = context;
    const result = await attempt(sender, webhook, delivery, context.seal.open, this.#ended.signal);
    if (this.#isEnded) return;
    const attempts = delivery.attempts + 1;
    const { status, reason } = result;
    const done = { attempts, attemptedAt: now(), status, reason };
    if (reason === undefined) {
      await store.updateDelivery(delivery.id, { ...done, state: "delivered", dueAt: undefined });
      if (webhook.failingSince !== undefined) await store.updateWebhook(webhook.id, { failingSince: undefined });
    } else {
      const pause = status === goneStatus ? undefined : pauseAfter(attempts, random());
      const next = pause === undefined ? { state: "failed" as const } : { dueAt: now() + pause };
      await store.updateDelivery(delivery.id, { ...done, dueAt: undefined, ...next });
      await this.#failed(webhook, reason, status);
    }
    await store.pruneDeliveries(webhook.id, mostKept);
  }

  async #failed(
    { id, projectId, failingSince, url }: Webhook,
    reason: string,
    status: number | undefined,
  ): Promise<void> {
    const { store, now, events } = this.#options.context;
    const since = failingSince ?? now();
    const isGone = status === goneStatus;
    if (!isGone && !isHopeless(since, now())) {
      if (failingSince === undefined) await store.updateWebhook(id, { failingSince: since });
      return;
    }
    const why = isGone ? "Its receiver answered 410 (Gone)" : `Every attempt has failed for three days: ${reason}`;
    await store.updateWebhook(id, { enabled: false, disabledReason: why, failingSince: undefined, updatedAt: now() });
    events.publish(projectId, { type: "webhook.disabled", webhookId: id, host: hostOf(url), reason: why });
  }

  /** waits so long, or until the promise resolves or the pump ends; leaves no timer and no listener behind */
  #pause(ms: number, until?: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#ended.signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      timer.unref();
      this.#ended.signal.addEventListener("abort", done);
      if (this.#isEnded) done();
      void until?.then(done);
    });
  }
}

/** one attempt; `reason` says why it failed */
export async function attempt(
  sender: WebhookSender,
  { url, secret }: Pick<Webhook, "url" | "secret">,
  { id, body }: Pick<WebhookDelivery, "id" | "body">,
  open: (sealed: string) => string,
  signal: AbortSignal,
): Promise<{ status?: number; reason?: string }> {
  try {
    const { status } = await sender.send({ url, secret: open(secret), id, body, signal });
    return status >= 200 && status < 300 ? { status } : { status, reason: `The receiver answered ${status}` };
  } catch (error) {
    return { reason: isSandkeepError(error) ? error.message : `Cannot send: ${messageOf(error)}` };
  }
}

export function newDelivery(
  { id, webhookId, at }: { id: string; webhookId: string; at: number },
  type: string,
  happenedAt: number,
  data: object,
): WebhookDelivery {
  const body = JSON.stringify({ type, timestamp: new Date(happenedAt).toISOString(), data });
  return { id, webhookId, type, body, state: "waiting", attempts: 0, createdAt: at, dueAt: at };
}

/** events about webhooks themselves and gaps are always wanted, unless they would be sent because of themselves */
function isWanted({ id, types }: Webhook, event: Published): boolean {
  if ("webhookId" in event && event.webhookId === id) return false;
  if (event.type === "gap" || types.length === 0) return true;
  return types.some((type) => type === event.type || event.type.startsWith(`${type}.`));
}

/** a path or a query may contain a secret */
function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}
