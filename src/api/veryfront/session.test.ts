/** A session in Veryfront's format, and the settings that it passes to the core. */

import { expect, test } from "vitest";
import { session, time } from "../../../test/harness/fake-core.ts";
import type { SessionState } from "../../core/model/sandbox.ts";
import { printSession, sessionSpec } from "./session.ts";

const place = { publicUrl: "http://keep.example", project: { uuid: "u" } };

test("a session has its own URL and its project's UUID", () => {
  expect(printSession(session, place)).toEqual({
    id: session.id,
    short_id: "s1",
    endpoint: `http://keep.example/veryfront/${session.id}`,
    status: "running",
    ttl_mode: "duration",
    ttl_hours: null,
    expires_at: new Date(time + 300_000).toISOString(),
    created_at: new Date(time).toISOString(),
    project_id: "u",
    last_activity_at: null,
  });
});

test.each<[SessionState, string]>([
  ["pending", "provisioning"],
  ["running", "running"],
  ["snapshotting", "deleting"],
  ["stopping", "deleting"],
  ["stopped", "deleting"],
  ["failed", "error"],
  ["aborted", "error"],
])("the state %s is printed as %s", (state, status) => {
  expect(printSession({ ...session, state }, place).status).toBe(status);
});

test("hours are shown if they are whole", () => {
  expect(printSession({ ...session, timeout: 7_200_000 }, place).ttl_hours).toBe(2);
  expect(printSession({ ...session, timeout: 7_200_000, lifetime: "idle" }, place).ttl_hours).toBeNull();
});

test("each mode is one of the core's lifetimes, with the workspace as directory, and not persistent", () => {
  const common = { cwd: "/workspace", persistent: false, namedBySession: true };
  expect(sessionSpec({ mode: "default" })).toMatchObject({ ...common, lifetime: "idle" });
  expect(sessionSpec({ mode: "always_on" })).toMatchObject({ ...common, lifetime: "unlimited" });
  const fixed = sessionSpec({ mode: "duration", hours: 0.5 });
  expect(fixed).toMatchObject({ ...common, timeout: 1_800_000 });
  expect(fixed).not.toHaveProperty("lifetime");
});
