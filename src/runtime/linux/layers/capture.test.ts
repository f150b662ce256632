/** A capture is not acknowledged if some of its data did not get to the disk. */

import { expect, test } from "vitest";
import { Capturer, type CapturerOptions } from "./capture.ts";

test("a stop is not recorded as a snapshot while the kernel has lost a part of its files", async () => {
  const steps: string[] = [];
  let isWhole = false;
  const step = (name: string) => async () => void steps.push(name);
  const parts = {
    layers: {
      hasVolumes: true,
      hold: () => ({ add: step("claim"), release: step("release") }),
      adopt: step("adopt"),
      spare: step("copy"),
      volume: (id: string) => id,
      size: async () => 0,
    },
    snapshots: { publish: step("publish") },
    volumes: { usage: async () => 1 },
    durable: true,
    isReadOnly: () => false,
    async requireWhole() {
      steps.push("look");
      if (!isWhole) throw new Error("No space left on device");
    },
  };
  // Only the parts that a capture of an ended machine uses.
  const capturer = new Capturer(parts as unknown as CapturerOptions);
  const capture = () =>
    capturer.dead(
      { name: "m1", volume: "/volume" } as Parameters<Capturer["dead"]>[0],
      { image: { reference: "host" }, spec: {} } as Parameters<Capturer["dead"]>[1],
    );
  await expect(capture()).rejects.toThrow("No space left on device");
  expect(steps).toEqual(["adopt", "copy", "look", "release"]);
  isWhole = true;
  steps.length = 0;
  await capture();
  expect(steps).toEqual(["adopt", "copy", "look", "publish", "release"]);
});
