/** Tests of events in words. */

import { expect, test } from "vitest";
import { eventIds, eventWords } from "./event-words.ts";

const common = { cursor: "c1", at: 1, projectId: "prj_1", sandboxId: "sandbox_1", sandbox: "desk", sessionId: "sbx_1" };

test.each([
  [{ type: "command.started", commandId: "cmd_1", name: "npm" }, "npm", "sbx_1 cmd_1"],
  [{ type: "command.ended", commandId: "cmd_1", exitCode: 0 }, "exited with 0", "sbx_1 cmd_1"],
  [{ type: "session.stopped", cause: "asked", reason: "It was asked to stop" }, "It was asked to stop", "sbx_1"],
  [{ type: "session.stopped", cause: "timeout", reason: null }, "timeout", "sbx_1"],
  [{ type: "drive.created", drive: "cache", driveId: "drv_1" }, "cache", "sbx_1 drv_1"],
  [{ type: "session.running" }, "", "sbx_1"],
  [{ type: "some.future", size: 3, note: null }, "size 3", "sbx_1"],
])("%o says more than its type", (event, words, ids) => {
  expect([eventWords({ ...common, ...event }), eventIds({ ...common, ...event })]).toEqual([words, ids]);
});
