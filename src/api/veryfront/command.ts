/** Prints a command as Veryfront's JSON: a line for bash, and its status. */

import { constants } from "node:os";
import type { Command, Session } from "../../core/model/sandbox.ts";
import { timeOf } from "./session.ts";

const shell = "bash";

/** the program and arguments that run a command line */
export function commandLine(line: string): { name: string; args: string[] } {
  return { name: shell, args: ["-c", line] };
}

export interface WireCommand {
  id: string;
  command_id: string;
  command: string;
  status: "running" | "completed" | "failed" | "canceled";
  exit_code: number | null;
  signal: string | null;
  started_at: string;
  finished_at: string | null;
  heartbeat_status: "disabled" | "healthy" | "degraded";
  last_heartbeat_at: string | null;
  last_heartbeat_error: string | null;
  heartbeat_failure_count: number;
}

/** only sessions that end when idle have a heartbeat: a running command keeps them alive */
export function printCommand(it: Command, session: Pick<Session, "lifetime" | "lastActivityAt">): WireCommand {
  const keepsAlive = session.lifetime === "idle";
  const lastAlive = it.endedAt ?? Math.max(it.startedAt, session.lastActivityAt ?? 0);
  return {
    id: it.id,
    command_id: it.id,
    command: it.name === shell && it.args[0] === "-c" ? (it.args[1] ?? "") : [it.name, ...it.args].join(" "),
    status: statusOf(it),
    exit_code: it.exitCode ?? null,
    signal: signalOf(it.exitCode),
    started_at: new Date(it.startedAt).toISOString(),
    finished_at: timeOf(it.endedAt),
    heartbeat_status: keepsAlive ? "healthy" : "disabled",
    last_heartbeat_at: keepsAlive ? timeOf(lastAlive) : null,
    last_heartbeat_error: null,
    heartbeat_failure_count: 0,
  };
}

const signals = new Map(Object.entries(constants.signals).map(([name, number]) => [128 + number, name]));

/** the signal that a shell would infer from an exit code */
export function signalOf(exitCode: number | undefined): string | null {
  return (exitCode !== undefined && signals.get(exitCode)) || null;
}

/** signals that ask a program to end */
const ending = ["SIGINT", "SIGTERM", "SIGKILL"];

function statusOf({ exitCode, endCause }: Command): WireCommand["status"] {
  if (exitCode === undefined) return "running";
  if (exitCode === 0) return "completed";
  const isEnded = endCause === undefined && ending.includes(signalOf(exitCode) ?? "");
  return isEnded || endCause === "session-ended" ? "canceled" : "failed";
}
