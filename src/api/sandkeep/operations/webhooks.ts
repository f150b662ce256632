/** Webhooks of a project: where its events are sent to, and what became of each delivery. */

import { z } from "zod";
import type { WebhookDelivery } from "../../../core/model/webhook.ts";
import type { WebhookInfo } from "../../../core/webhooks/webhooks.ts";
import { answers, answersNothing, operation } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { printShortList, shortListQuery } from "../frame/short-list.ts";
import { time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";
import { topics } from "./events.ts";

const tag = "Events";
const params = { webhook: idOf("webhook") };

const typeRule = `an event is one of ${topics.join(", ")}, or a type such as \`session.running\`.`;

const settings = {
  url: z.string().min(1).max(2048).meta({ description: "An https address; http only where the operator allows it" }),
  events: z
    .array(
      z
        .string()
        .max(64)
        .regex(new RegExp(`^(${topics.join("|")})(\\.[a-z]+)?$`), typeRule),
    )
    .max(32)
    .meta({ description: "Types such as `session.running`, or first words such as `session`; all if it is empty" }),
  enabled: z.boolean(),
};

const webhookResource = z
  .object({
    id: z.string(),
    projectId: z.string(),
    url: z.string(),
    events: z.array(z.string()),
    enabled: z.boolean(),
    disabledReason: z.string().nullable().meta({ description: "Why the daemon has disabled it" }),
    failingSince: time.nullable().meta({ description: "Since when every attempt has failed" }),
    createdAt: time,
    updatedAt: time,
  })
  .meta({ id: "Webhook" });

const deliveryResource = z
  .object({
    id: z.string().meta({ description: "The `webhook-id` header, the same for each attempt" }),
    type: z.string(),
    state: z.enum(["waiting", "delivered", "failed"]),
    attempts: z.int(),
    status: z.int().nullable().meta({ description: "HTTP status of the last answer" }),
    reason: z.string().nullable().meta({ description: "Why the last attempt failed" }),
    createdAt: time,
    attemptedAt: time.nullable(),
    dueAt: time.nullable().meta({ description: "When the next attempt is made" }),
    body: z.string().meta({ description: "What is sent" }),
  })
  .meta({ id: "WebhookDelivery" });

const withSecret = z.object({
  webhook: webhookResource,
  secret: z.string().meta({ description: "Signs what is sent; it is not shown again" }),
});

export function webhookOperations({ core }: Dialect) {
  return [
    operation({
      id: "listWebhooks",
      method: "GET",
      path: "/webhooks",
      tag,
      summary: "Lists the webhooks of a project, oldest first",
      about: "project",
      query: shortListQuery,
      answer: answers("A page of webhooks", z.object({ webhooks: z.array(webhookResource), next })),
      run: async ({ owner, query }) => printShortList("webhooks", await core.webhooks.list(owner), query, printWebhook),
    }),
    operation({
      id: "createWebhook",
      method: "POST",
      path: "/webhooks",
      tag,
      summary: "Sends the events of a project to a URL from now on",
      description:
        "Each event is sent at least once, signed as Standard Webhooks describes it; docs/webhooks.md says how to check it.",
      about: "project",
      body: z.strictObject({
        url: settings.url,
        events: settings.events.optional(),
        enabled: settings.enabled.optional(),
      }),
      answer: answers("The webhook, and its secret", withSecret, 201),
      async run({ owner, body: { url, events: types, enabled } }) {
        const { webhook, secret } = await core.webhooks.create(owner, { url, types, enabled });
        return { webhook: printWebhook(webhook), secret };
      },
    }),
    operation({
      id: "getWebhook",
      method: "GET",
      path: "/webhooks/{webhook}",
      tag,
      summary: "Returns a webhook",
      about: "project",
      params,
      answer: answers("The webhook", webhookResource),
      run: async ({ owner, params: { webhook } }) => printWebhook(await core.webhooks.get(owner, webhook)),
    }),
    operation({
      id: "changeWebhook",
      method: "PATCH",
      path: "/webhooks/{webhook}",
      tag,
      summary: "Changes a webhook; events that came while it was disabled are not sent",
      about: "project",
      params,
      body: z.strictObject({
        url: settings.url.optional(),
        events: settings.events.optional(),
        enabled: settings.enabled.optional(),
      }),
      answer: answers("The webhook", webhookResource),
      run: async ({ owner, params: { webhook }, body: { url, events: types, enabled } }) =>
        printWebhook(await core.webhooks.update(owner, webhook, { url, types, enabled })),
    }),
    operation({
      id: "deleteWebhook",
      method: "DELETE",
      path: "/webhooks/{webhook}",
      tag,
      summary: "Deletes a webhook with its deliveries",
      about: "project",
      params,
      answer: answersNothing("It is gone"),
      async run({ owner, params: { webhook } }) {
        await core.webhooks.delete(owner, webhook);
        return undefined;
      },
    }),
    operation({
      id: "rotateWebhookSecret",
      method: "POST",
      path: "/webhooks/{webhook}/secret",
      tag,
      summary: "Gives a webhook a new secret, which signs everything from now on",
      about: "project",
      params,
      answer: answers("The webhook, and its new secret", withSecret),
      async run({ owner, params: { webhook: id } }) {
        const { webhook, secret } = await core.webhooks.rotateSecret(owner, id);
        return { webhook: printWebhook(webhook), secret };
      },
    }),
    operation({
      id: "testWebhook",
      method: "POST",
      path: "/webhooks/{webhook}/test",
      tag,
      summary: "Sends a `webhook.test` event once, and says how the receiver answered",
      about: "project",
      params,
      answer: answers("The delivery", deliveryResource),
      run: async ({ owner, params: { webhook } }) => printDelivery(await core.webhooks.test(owner, webhook)),
    }),
    operation({
      id: "listDeliveries",
      method: "GET",
      path: "/webhooks/{webhook}/deliveries",
      tag,
      summary: "Lists what was sent to a webhook, and what waits",
      description: "The newest 1,000 are kept, and all that wait.",
      about: "project",
      params,
      query: pageQuery,
      answer: answers("A page of deliveries", z.object({ deliveries: z.array(deliveryResource), next })),
      run: async ({ owner, params: { webhook }, query }) =>
        printPage("deliveries", await core.webhooks.deliveries(owner, webhook, pageOf(query)), printDelivery),
    }),
    operation({
      id: "redeliver",
      method: "POST",
      path: "/webhooks/{webhook}/deliveries/{delivery}/redeliver",
      tag,
      summary: "Sends a delivery once more, whatever became of it before",
      about: "project",
      params: { ...params, delivery: idOf("delivery") },
      answer: answers("The delivery", deliveryResource),
      run: async ({ owner, params: { webhook, delivery } }) =>
        printDelivery(await core.webhooks.redeliver(owner, webhook, delivery)),
    }),
  ];
}

function printWebhook(webhook: WebhookInfo): z.input<typeof webhookResource> {
  const { id, projectId, url, types, enabled, createdAt, updatedAt } = webhook;
  const { disabledReason = null, failingSince = null } = webhook;
  return { id, projectId, url, events: types, enabled, disabledReason, failingSince, createdAt, updatedAt };
}

function printDelivery(delivery: WebhookDelivery): z.input<typeof deliveryResource> {
  const { id, type, state, attempts, createdAt, body } = delivery;
  const { status = null, reason = null, attemptedAt = null, dueAt = null } = delivery;
  return { id, type, state, attempts, status, reason, createdAt, attemptedAt, dueAt, body };
}
