/** Webhooks of projects, whose secrets were sealed before they come here, and their deliveries. */

import type { Webhook, WebhookDelivery } from "../../core/model/webhook.ts";
import type { WebhookRecords } from "../../core/ports/webhooks.ts";
import { durable } from "../durable.ts";
import type { Database } from "../tables.ts";
import { pageByTime } from "./lists/page.ts";
import { all, first, mapping } from "./rows.ts";

const webhooks = mapping<Webhook>({
  id: "text",
  teamId: "text",
  projectId: "text",
  url: "text",
  types: "json",
  secret: "text",
  enabled: "flag",
  disabledReason: "prose",
  cursor: "text",
  failingSince: "whole",
  createdAt: "whole",
  updatedAt: "whole",
});
const deliveries = mapping<WebhookDelivery>({
  id: "text",
  webhookId: "text",
  type: "text",
  body: "prose",
  state: "text",
  attempts: "whole",
  createdAt: "whole",
  attemptedAt: "whole",
  dueAt: "whole",
  status: "whole",
  reason: "prose",
});

/** deliveries stored in one statement */
const batch = 100;

export function webhookStore(db: Database): WebhookRecords {
  const listed = () => db.selectFrom("webhooks").selectAll().orderBy("created_at").orderBy("id");
  return {
    insertWebhook: durable(async (webhook) => {
      await db.insertInto("webhooks").values(webhooks.toRow(webhook)).execute();
    }),

    getWebhook: (id) => first(db.selectFrom("webhooks").selectAll().where("id", "=", id), webhooks.toValue),

    listWebhooks: (projectId) => all(listed().where("project_id", "=", projectId), webhooks.toValue),

    enabledWebhooks: () => all(listed().where("enabled", "=", 1), webhooks.toValue),

    updateWebhook: durable((id, changes) =>
      first(
        db.updateTable("webhooks").set(webhooks.toChanges(changes)).where("id", "=", id).returningAll(),
        webhooks.toValue,
      ),
    ),

    deleteWebhook: durable((id) =>
      db.transaction().execute(async (tx) => {
        await tx.deleteFrom("webhook_deliveries").where("webhook_id", "=", id).execute();
        return (await tx.deleteFrom("webhooks").where("id", "=", id).returning("id").executeTakeFirst()) !== undefined;
      }),
    ),

    addDeliveries: (webhookId, added, cursor) =>
      db.transaction().execute(async (tx) => {
        const there = await tx
          .updateTable("webhooks")
          .set((eb) => ({ cursor: cursor ?? eb.ref("cursor") }))
          .where("id", "=", webhookId)
          .returning("id")
          .executeTakeFirst();
        if (!there) return;
        for (let at = 0; at < added.length; at += batch) {
          const rows = added.slice(at, at + batch).map(deliveries.toRow);
          await tx.insertInto("webhook_deliveries").values(rows).execute();
        }
      }),

    getDelivery: (webhookId, id) =>
      first(
        db.selectFrom("webhook_deliveries").selectAll().where("id", "=", id).where("webhook_id", "=", webhookId),
        deliveries.toValue,
      ),

    updateDelivery: (id, changes) =>
      first(
        db.updateTable("webhook_deliveries").set(deliveries.toChanges(changes)).where("id", "=", id).returningAll(),
        deliveries.toValue,
      ),

    waitingDeliveries: (webhookId, limit) =>
      all(
        db
          .selectFrom("webhook_deliveries")
          .selectAll()
          .where("webhook_id", "=", webhookId)
          .where("state", "=", "waiting")
          .orderBy("due_at")
          .orderBy("id")
          .limit(limit),
        deliveries.toValue,
      ),

    listDeliveries: (query) =>
      pageByTime(
        db,
        { of: "webhook_deliveries", time: "created_at", owner: { webhookId: query.webhookId } },
        query,
        deliveries.toValue,
      ),

    async pruneDeliveries(webhookId, newest) {
      const oldest = await db
        .selectFrom("webhook_deliveries")
        .select("created_at")
        .where("webhook_id", "=", webhookId)
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .offset(newest)
        .limit(1)
        .executeTakeFirst();
      if (!oldest) return;
      await db
        .deleteFrom("webhook_deliveries")
        .where("webhook_id", "=", webhookId)
        .where("created_at", "<=", oldest.created_at)
        .where("state", "<>", "waiting")
        .execute();
    },
  };
}
