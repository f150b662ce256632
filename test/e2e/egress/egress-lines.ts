/** The lines of an egress log over HTTP, for the tests of several files. */

import { expect } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { type AnySandbox, raw } from "../clients.ts";

/** a page of a session's log, or of a sandbox's last one */
export async function egressPage(daemon: TestDaemon, of: AnySandbox | string, query = "?limit=1000") {
  const path = typeof of === "string" ? `sessions/${of}` : `sandboxes/${of.name}`;
  const answer = await raw(daemon, "GET", `/sandkeep/v1/${path}/egress${query}`);
  expect(answer.status).toBe(200);
  return answer.json;
}

/** the first line with these fields, once there is one; a field that is undefined must be missing in the line */
export function lineWith(daemon: TestDaemon, of: AnySandbox | string, fields: Record<string, unknown>) {
  return eventually(`a line with ${JSON.stringify(fields)}`, async () => {
    const { events } = await egressPage(daemon, of);
    return events.find((event: Record<string, unknown>) =>
      Object.entries(fields).every(([key, value]) => event[key] === value),
    );
  });
}
