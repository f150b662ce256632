/** Webhooks and their deliveries: records and cursor move together, and the log stays bounded. */

import { describe, expect, test } from "vitest";
import type { Webhook, WebhookDelivery } from "../../../src/core/model/webhook.ts";
import { newOwner, noon, type StoreHost, unique } from "./host.ts";

export function webhooksSuite(host: () => StoreHost): void {
  async function stored(fields: Partial<Webhook> = {}): Promise<Webhook> {
    const { store } = host();
    const { teamId, projectId } = await newOwner(store);
    const webhook: Webhook = {
      ...{ id: unique("wh_"), teamId, projectId, url: "https://a.test/", types: ["session"], secret: "sealed" },
      ...{ enabled: true, cursor: "run-1", createdAt: noon, updatedAt: noon, ...fields },
    };
    await store.insertWebhook(webhook);
    return webhook;
  }
  const deliveryOf = (webhook: Webhook, fields: Partial<WebhookDelivery> = {}): WebhookDelivery => ({
    ...{ id: unique("msg_"), webhookId: webhook.id, type: "session.running", body: "{}", state: "waiting" },
    ...{ attempts: 0, createdAt: noon, dueAt: noon, ...fields },
  });

  describe("webhooks", () => {
    test("every field comes back as it was, and a change clears what is undefined", async () => {
      const { store } = host();
      const webhook = await stored({ failingSince: noon, disabledReason: "because" });
      expect(await store.getWebhook(webhook.id)).toEqual(webhook);
      expect(await store.listWebhooks(webhook.projectId)).toEqual([webhook]);
      const { failingSince: _, disabledReason: __, ...rest } = webhook;
      const changes = { failingSince: undefined, disabledReason: undefined, enabled: false };
      expect(await store.updateWebhook(webhook.id, changes)).toEqual({ ...rest, enabled: false });
      expect((await store.enabledWebhooks()).map(({ id }) => id)).not.toContain(webhook.id);
    });

    test("deliveries are added with the cursor, wait in the order of their time, and go with their webhook", async () => {
      const { store } = host();
      const webhook = await stored();
      const later = deliveryOf(webhook, { dueAt: noon + 9, createdAt: noon - 1 });
      const sooner = deliveryOf(webhook);
      await store.addDeliveries(webhook.id, [later, sooner], "run-7");
      expect((await store.getWebhook(webhook.id))?.cursor).toBe("run-7");
      expect(await store.waitingDeliveries(webhook.id, 10)).toEqual([sooner, later]);
      const { dueAt: _, ...done } = { ...sooner, state: "delivered" as const, status: 204, attempts: 1 };
      const changes = { state: "delivered", status: 204, attempts: 1, dueAt: undefined } as const;
      expect(await store.updateDelivery(sooner.id, changes)).toEqual(done);
      expect(await store.waitingDeliveries(webhook.id, 10)).toEqual([later]);
      const page = await store.listDeliveries({ webhookId: webhook.id, limit: 1, order: "asc" });
      expect([page.items, page.next]).toEqual([[later], expect.any(String)]);
      expect(await store.getDelivery("wh_other", later.id)).toBeUndefined();
      expect(await store.deleteWebhook(webhook.id)).toBe(true);
      expect(await store.deleteWebhook(webhook.id)).toBe(false);
      expect(await store.getDelivery(webhook.id, later.id)).toBeUndefined();
      await store.addDeliveries(webhook.id, [deliveryOf(webhook)], "run-8");
      expect(await store.waitingDeliveries(webhook.id, 10)).toEqual([]);
    });

    test("pruning keeps the newest and all that wait", async () => {
      const { store } = host();
      const webhook = await stored();
      const all = Array.from({ length: 250 }, (_, i) =>
        deliveryOf(webhook, { createdAt: noon + i, state: i % 50 === 0 ? "waiting" : "delivered" }),
      );
      await store.addDeliveries(webhook.id, all);
      expect((await store.getWebhook(webhook.id))?.cursor).toBe("run-1");
      await store.pruneDeliveries(webhook.id, 20);
      const { items } = await store.listDeliveries({ webhookId: webhook.id, limit: 500, order: "asc" });
      expect(items.map(({ createdAt }) => createdAt - noon)).toEqual([
        0,
        50,
        100,
        150,
        200,
        ...Array.from({ length: 20 }, (_, i) => 230 + i),
      ]);
    });
  });
}
