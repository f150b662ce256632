/** Reports of a pull: few events whatever the number of bytes and of creates, and each caller hears of all bytes. */

import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import type { Event } from "../events/event.ts";
import { PullReports } from "./pull-reports.ts";

function fixture() {
  const events: [string, Event][] = [];
  const publish = (...event: [string, Event]) => void events.push(event);
  return { events, reports: new PullReports({ events: { publish } } as unknown as Context) }; // it uses nothing else
}

const mebibyte = 1 << 20;

test("a pull publishes an event for each tenth, and one when the image is here", async () => {
  const { events, reports } = fixture();
  const heard: number[] = [];
  const work = async (progress: (at: { received: number; total: number }) => void) => {
    for (let received = 0; received <= 1000; received += 5)
      progress({ received: received * mebibyte, total: 1000 * mebibyte });
    return "image";
  };
  const done = await reports.during({ projectId: "p" }, "app:1", work, ({ received }) => void heard.push(received));
  expect(done).toBe("image");
  expect(heard).toHaveLength(201);
  expect(events.map(([, { type }]) => type)).toEqual([...Array(11).fill("image.pulling"), "image.pulled"]);
  expect(events[1]).toEqual([
    "p",
    { type: "image.pulling", image: "app:1", received: 100 * mebibyte, total: 1000 * mebibyte },
  ]);
});

test("of creates that wait for one image only the first publishes, and an image that is here publishes nothing", async () => {
  const { events, reports } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const wait = (progress: (at: { received: number; total: number }) => void) => {
    progress({ received: 1, total: 2 });
    return promise;
  };
  const both = [1, 2].map(() => reports.during({ projectId: "p" }, "app:1", wait));
  const other = reports.during({ projectId: "q" }, "app:1", wait);
  resolve();
  await Promise.all([...both, other]);
  expect(events.map(([project, { type }]) => `${project} ${type}`).toSorted()).toEqual([
    "p image.pulled",
    "p image.pulling",
    "q image.pulled",
    "q image.pulling",
  ]);
  await reports.during({ projectId: "p" }, "app:1", async () => undefined);
  expect(events).toHaveLength(4);
});

test("a pull that fails publishes no end, and the next one publishes again", async () => {
  const { events, reports } = fixture();
  const fail = async (progress: (at: { received: number; total: number }) => void) => {
    progress({ received: 0, total: 2 });
    throw new Error("cut off");
  };
  for (const _ of [1, 2]) {
    await expect(reports.during({ projectId: "p" }, "app:1", fail)).rejects.toThrow("cut off");
  }
  expect(events.map(([, { type }]) => type)).toEqual(["image.pulling", "image.pulling"]);
});
