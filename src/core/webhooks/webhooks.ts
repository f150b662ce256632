/** Webhooks of projects: create, change and delete them, test one, and send a delivery again (pump.ts sends the rest). */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Owner } from "../model/sandbox.ts";
import type { Webhook, WebhookDelivery } from "../model/webhook.ts";
import type { Page, PageQuery } from "../ports/store.ts";
import type { WebhookSender } from "../ports/webhooks.ts";
import { attempt, newDelivery, WebhookPump } from "./pump.ts";

export type WebhookInfo = Omit<Webhook, "secret" | "cursor">;

export interface WebhookSpec {
  url: string;
  types?: string[] | undefined;
  enabled?: boolean | undefined;
}

export type WebhookUpdate = { [K in keyof WebhookSpec]?: WebhookSpec[K] | undefined };

const mostOfProject = 20;

export class Webhooks {
  readonly #context: Context;
  readonly #sender: WebhookSender | undefined;
  /** of enabled webhooks, by id */
  readonly #pumps = new Map<string, WebhookPump>();
  #isOpen = false;

  constructor(context: Context) {
    this.#context = context;
    this.#sender = context.webhookSender;
  }

  /** continues all that are enabled */
  async open(): Promise<void> {
    this.#isOpen = true;
    for (const webhook of await this.#context.store.enabledWebhooks()) this.#start(webhook);
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    await Promise.all([...this.#pumps.keys()].map((id) => this.#stop(id)));
  }

  async list({ projectId }: Owner): Promise<WebhookInfo[]> {
    return (await this.#context.store.listWebhooks(projectId)).map(shown);
  }

  async get(owner: Owner, id: string): Promise<WebhookInfo> {
    return shown(await this.#find(owner, id));
  }

  /** returns the secret, which is not shown again; events from now on are sent */
  async create(owner: Owner, spec: WebhookSpec): Promise<{ webhook: WebhookInfo; secret: string }> {
    const { store, ids, now, seal, events, redact } = this.#context;
    this.#check(spec.url);
    if ((await store.listWebhooks(owner.projectId)).length >= mostOfProject) {
      throw new SandkeepError(
        "limit",
        `Cannot create the webhook: the project has ${mostOfProject}, and no more may be`,
      );
    }
    const { id, secret } = ids.webhook();
    redact?.(secret);
    const at = now();
    const webhook: Webhook = {
      id,
      teamId: owner.teamId,
      projectId: owner.projectId,
      url: spec.url,
      types: spec.types ?? [],
      secret: seal.seal(secret),
      enabled: spec.enabled ?? true,
      cursor: events.newest(owner.projectId),
      createdAt: at,
      updatedAt: at,
    };
    await store.insertWebhook(webhook);
    this.#start(webhook);
    return { webhook: shown(webhook), secret };
  }

  async update(owner: Owner, id: string, { url, types, enabled }: WebhookUpdate): Promise<WebhookInfo> {
    const webhook = await this.#find(owner, id);
    if (url !== undefined) this.#check(url);
    return this.#change(webhook, {
      ...(url !== undefined && { url }),
      ...(types !== undefined && { types }),
      ...(enabled !== undefined && { enabled }),
      ...(enabled && { disabledReason: undefined, failingSince: undefined }),
    });
  }

  /** a new secret, with which everything is signed from now on */
  async rotateSecret(owner: Owner, id: string): Promise<{ webhook: WebhookInfo; secret: string }> {
    const { ids, seal, redact } = this.#context;
    const webhook = await this.#find(owner, id);
    const { secret } = ids.webhook();
    redact?.(secret);
    return { webhook: await this.#change(webhook, { secret: seal.seal(secret) }), secret };
  }

  async delete(owner: Owner, id: string): Promise<void> {
    await this.#find(owner, id);
    await this.#remove(id);
  }

  /** deletes those of a project that was deleted */
  async forget(projectId: string): Promise<void> {
    for (const { id } of await this.#context.store.listWebhooks(projectId)) await this.#remove(id);
  }

  /** sends a `webhook.test` event once, also to a webhook that is disabled; its delivery says what came of it */
  async test(owner: Owner, id: string): Promise<WebhookDelivery> {
    const { store, ids, now } = this.#context;
    const webhook = await this.#find(owner, id);
    const data = { webhookId: id, projectId: owner.projectId };
    const made = newDelivery({ id: ids.delivery(), webhookId: id, at: now() }, "webhook.test", now(), data);
    const { dueAt: _, ...delivery } = made;
    const sent = await this.#send(webhook, delivery);
    await store.addDeliveries(id, [sent]);
    return sent;
  }

  async deliveries(owner: Owner, id: string, page: PageQuery): Promise<Page<WebhookDelivery>> {
    await this.#find(owner, id);
    return this.#context.store.listDeliveries({ ...page, webhookId: id });
  }

  /** sends it once more, at once, whatever became of it before; a receiver knows it by its id */
  async redeliver(owner: Owner, id: string, deliveryId: string): Promise<WebhookDelivery> {
    const { store } = this.#context;
    const webhook = await this.#find(owner, id);
    const delivery = await store.getDelivery(id, deliveryId);
    if (!delivery) throw new SandkeepError("not-found", `There is no delivery "${deliveryId}" of webhook "${id}"`);
    const { state, attempts, attemptedAt, status, reason } = await this.#send(webhook, delivery);
    // One that waits goes on waiting if this attempt fails. The state of any other is that of its last attempt.
    const isWaiting = state === "failed" && delivery.state === "waiting";
    const next = isWaiting ? {} : { state, dueAt: undefined };
    const changes = { attempts, attemptedAt, status, reason, ...next };
    return (await store.updateDelivery(delivery.id, changes)) ?? delivery;
  }

  async #send(webhook: Webhook, delivery: WebhookDelivery): Promise<WebhookDelivery> {
    const { now, seal } = this.#context;
    const { status, reason } = await attempt(
      this.#senderOrRefuse(),
      webhook,
      delivery,
      seal.open,
      new AbortController().signal,
    );
    const { status: _, reason: __, ...rest } = delivery;
    return {
      ...rest,
      state: reason === undefined ? "delivered" : "failed",
      attempts: delivery.attempts + 1,
      attemptedAt: now(),
      ...(status !== undefined && { status }),
      ...(reason !== undefined && { reason }),
    };
  }

  async #change(
    webhook: Webhook,
    changes: Partial<{ [K in keyof Webhook]: Webhook[K] | undefined }>,
  ): Promise<WebhookInfo> {
    const { store, now, events } = this.#context;
    await this.#stop(webhook.id);
    // What happened while it was disabled is not sent.
    const isBack = changes.enabled === true && !webhook.enabled;
    if (isBack) await store.addDeliveries(webhook.id, [], events.newest(webhook.projectId));
    const { cursor: _, ...fields } = changes;
    const changed = await store.updateWebhook(webhook.id, { ...fields, updatedAt: now() });
    if (!changed) throw notThere(webhook.id);
    this.#start(changed);
    return shown(changed);
  }

  async #remove(id: string): Promise<void> {
    await this.#stop(id);
    if (!(await this.#context.store.deleteWebhook(id))) throw notThere(id);
  }

  #start(webhook: Webhook): void {
    const sender = this.#sender;
    if (!this.#isOpen || !webhook.enabled || !sender) return;
    const context = this.#context;
    this.#pumps.set(webhook.id, new WebhookPump({ context, sender, random: Math.random }, webhook));
  }

  async #stop(id: string): Promise<void> {
    const pump = this.#pumps.get(id);
    this.#pumps.delete(id);
    await pump?.close();
  }

  #check(url: string): void {
    this.#senderOrRefuse().check(url);
  }

  #senderOrRefuse(): WebhookSender {
    if (this.#sender) return this.#sender;
    throw new SandkeepError("unsupported", "Cannot use webhooks: this daemon has no way to send them");
  }

  async #find({ projectId }: Owner, id: string): Promise<Webhook> {
    const webhook = await this.#context.store.getWebhook(id);
    if (webhook?.projectId !== projectId) throw notThere(id);
    return webhook;
  }
}

function shown({ secret: _, cursor: __, ...info }: Webhook): WebhookInfo {
  return info;
}

function notThere(id: string): SandkeepError {
  return new SandkeepError("not-found", `There is no webhook "${id}" in this project`);
}
