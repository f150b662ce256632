/** A command in Veryfront's format: its line, status and heartbeat. */

import { expect, test } from "vitest";
import { command, endedCommand, session, time } from "../../../test/harness/fake-core.ts";
import { commandLine, printCommand } from "./command.ts";

const iso = (at: number) => new Date(at).toISOString();

test("a command shows its original line, and a program of another wire is joined into one", () => {
  expect(printCommand({ ...command, ...commandLine("a | b") }, session).command).toBe("a | b");
  expect(printCommand(command, session).command).toBe("echo hi");
});

test.each([
  [{}, { status: "running", exit_code: null, signal: null, finished_at: null }],
  [
    { exitCode: 0, endedAt: time },
    { status: "completed", exit_code: 0, finished_at: iso(time) },
  ],
  [
    { exitCode: 3, endedAt: time },
    { status: "failed", exit_code: 3, signal: null },
  ],
  [
    { exitCode: 143, endedAt: time },
    { status: "canceled", exit_code: 143, signal: "SIGTERM" },
  ],
  [
    { exitCode: 139, endedAt: time },
    { status: "failed", signal: "SIGSEGV" },
  ],
  [
    { exitCode: 137, endedAt: time, endCause: "timeout" as const },
    { status: "failed", signal: "SIGKILL" },
  ],
  [{ exitCode: 137, endedAt: time, endCause: "out-of-memory" as const }, { status: "failed" }],
  [{ exitCode: 137, endedAt: time, endCause: "session-ended" as const }, { status: "canceled" }],
])("%j is %j", (end, printed) => {
  expect(printCommand({ ...command, ...end }, session)).toMatchObject(printed);
});

test("only a command of a session that ends when idle has a heartbeat", () => {
  const idle = { lifetime: "idle" as const, lastActivityAt: time + 5 };
  expect(printCommand(command, idle)).toMatchObject({ heartbeat_status: "healthy", last_heartbeat_at: iso(time + 5) });
  expect(printCommand(endedCommand, idle).last_heartbeat_at).toBe(iso(time + 7));
  for (const lifetime of [{}, { lifetime: "unlimited" as const }])
    expect(printCommand(command, lifetime)).toMatchObject({ heartbeat_status: "disabled", last_heartbeat_at: null });
});
