/** The metrics for Prometheus: their format, and who may read them. */

import { expect, test } from "vitest";
import { apiClient } from "../../../test/harness/api-client.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import { metricsText } from "./metrics.ts";

const vitals = {
  machines: { running: 3, paused: 2, hot: 2, warm: 1 },
  processors: { count: 4, busy: 1.5, load: 2.25 },
  memory: { total: 8_000_000_000, available: 2_000_000_000 },
  disk: {
    places: [
      { place: "disk" as const, total: 40_000_000_000, free: 5_000_000_000, reserve: 2_147_483_648 },
      { place: "store" as const, total: 20_000_000_000, free: 1_000_000, reserve: 201_326_592 },
    ],
    isGrowthStopped: true,
  },
  openFiles: { now: 1000, most: 50_000 },
  tcpMemory: { now: 4096, most: 8192 },
  sessions: { pending: 0, running: 3, paused: 2, snapshotting: 0, stopping: 1 },
};

test("each metric has its help, its type and its values", async () => {
  const { send } = apiClient({ "host.vitals": async () => vitals });
  const response = await send("GET", "/metrics");
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  const text = await response.text();
  expect(text).toContain(
    [
      "# HELP sandkeep_disk_growth_stopped 1 while less than the reserve is free: no sandbox is started and none can add to its files",
      "# TYPE sandkeep_disk_growth_stopped gauge",
      "sandkeep_disk_growth_stopped 1",
      "# HELP sandkeep_machines Sandboxes that run",
      "# TYPE sandkeep_machines gauge",
      "sandkeep_machines 3",
    ].join("\n"),
  );
  expect(text).toContain('sandkeep_disk_free_bytes{place="store"} 1000000\n');
  expect(text).toContain('sandkeep_sessions{state="stopping"} 1\n');
  expect(text).toContain("\nsandkeep_paused_machines 2\n");
  const line = /^(# (HELP \w+ .+|TYPE \w+ gauge)|\w+(\{\w+="\w+"\})? \d+)$/;
  expect(text.endsWith("\n")).toBe(true);
  expect(
    text
      .trimEnd()
      .split("\n")
      .filter((each) => !line.test(each)),
  ).toEqual([]);
});

test("without a watched disk there are no disk metrics", () => {
  const { disk: _, ...others } = vitals;
  expect(metricsText(others)).not.toContain("sandkeep_disk");
});

test("it requires a key of the operator", async () => {
  const { ask } = apiClient({
    "host.vitals": async () => {
      throw new SandkeepError("forbidden", "Not authorized");
    },
  });
  expect((await ask("GET", "/metrics", undefined, { token: null })).status).toBe(401);
  expect((await ask("GET", "/metrics", undefined, { token: "sk_other" })).status).toBe(401);
  expect((await ask("GET", "/metrics")).status).toBe(403);
  expect((await ask("POST", "/metrics")).status).toBe(404);
});
