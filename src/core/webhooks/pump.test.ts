/** What a pump makes of the events that it finds. */

import { expect, onTestFinished, test } from "vitest";
import type { Webhook, WebhookDelivery } from "../model/webhook.ts";
import { type PumpOptions, WebhookPump } from "./pump.ts";

test("the deliveries of a batch are in the order of their events, by time and then by id", async () => {
  const webhook = { id: "wh_1", projectId: "prj_1", cursor: "0", types: [], enabled: true } as unknown as Webhook;
  const types = ["pending", "running", "stopping", "stopped"];
  const events = types.map((type, at) => ({ type: `session.${type}`, at, cursor: String(at + 1) }));
  const { promise: added, resolve: add } = Promise.withResolvers<WebhookDelivery[]>();
  const store = {
    getWebhook: async () => webhook,
    waitingDeliveries: async () => [],
    addDeliveries: async (_: string, deliveries: WebhookDelivery[]) => add(deliveries),
  };
  const page = async (_: string, cursor: string) => ({ events: cursor === "0" ? events : [] });
  const random = ["msg_c", "msg_a", "msg_d", "msg_b"].values();
  const context = {
    ...{ store, events: { page, arrived: () => new Promise(() => undefined) } },
    ...{ ids: { delivery: () => random.next().value }, now: () => 5, logError: () => undefined },
  };
  // A pump uses only these parts.
  const pump = new WebhookPump({ context, random: () => 0 } as unknown as PumpOptions, webhook);
  onTestFinished(() => pump.close());
  const deliveries = await added;
  const sorted = deliveries.toSorted((one, other) => one.createdAt - other.createdAt || (one.id < other.id ? -1 : 1));
  expect(sorted.map(({ type }) => type)).toEqual(events.map(({ type }) => type));
});
