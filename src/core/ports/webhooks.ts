/** What webhooks need of others: records, for which the rules of store.ts apply, and a way to send. */

import type { Webhook, WebhookDelivery } from "../model/webhook.ts";
import type { Page, PageQuery } from "./store.ts";

type Changes<T> = { [K in keyof T]?: T[K] | undefined };
export type WebhookChanges = Changes<Omit<Webhook, "id" | "teamId" | "projectId" | "createdAt" | "cursor">>;
export type DeliveryChanges = Changes<
  Pick<WebhookDelivery, "state" | "attempts" | "attemptedAt" | "dueAt" | "status" | "reason">
>;

export interface WebhookRecords {
  insertWebhook(webhook: Webhook): Promise<void>;
  getWebhook(id: string): Promise<Webhook | undefined>;
  /** oldest first */
  listWebhooks(projectId: string): Promise<Webhook[]>;
  /** of all projects */
  enabledWebhooks(): Promise<Webhook[]>;
  /** undefined clears a field; undefined if it is gone */
  updateWebhook(id: string, changes: WebhookChanges): Promise<Webhook | undefined>;
  /** with its deliveries; false if it is gone already */
  deleteWebhook(id: string): Promise<boolean>;

  /** adds deliveries and moves the webhook's cursor; does nothing if the webhook is gone */
  addDeliveries(webhookId: string, deliveries: readonly WebhookDelivery[], cursor?: string): Promise<void>;
  getDelivery(webhookId: string, id: string): Promise<WebhookDelivery | undefined>;
  updateDelivery(id: string, changes: DeliveryChanges): Promise<WebhookDelivery | undefined>;
  /** those that wait, the next due first */
  waitingDeliveries(webhookId: string, limit: number): Promise<WebhookDelivery[]>;
  listDeliveries(query: PageQuery & { webhookId: string }): Promise<Page<WebhookDelivery>>;
  /** deletes the oldest that do not wait, beyond this many of the webhook's newest */
  pruneDeliveries(webhookId: string, newest: number): Promise<void>;
}

export interface WebhookMessage {
  url: string;
  /** in the clear: `whsec_` and base64 */
  secret: string;
  id: string;
  body: string;
  signal: AbortSignal;
}

export interface WebhookSender {
  /** one attempt; throws a sentence if there is no answer. Throws `forbidden` for an address that it may not reach */
  send(message: WebhookMessage): Promise<{ status: number }>;
  /** throws `invalid` or `forbidden` for a URL that can never be sent to */
  check(url: string): void;
}
