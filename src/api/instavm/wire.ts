/**
 * Prints the core's objects as InstaVM's JSON. Missing values are null, times are ISO 8601 in UTC without a zone and
 * fractions, and durations are in seconds.
 */

import type { Command, Drive, Route, Sandbox, SessionState, Snapshot, Totals } from "../../core/model/sandbox.ts";
import type { ApiKey, SessionSummary } from "../../core/ports/store.ts";
import { isOver } from "../../core/sessions/states.ts";
import { portUrl } from "../kit/port-url.ts";
import type { Vm } from "./request.ts";

const statuses: Record<SessionState, VmStatus> = {
  pending: "pending",
  running: "active",
  paused: "suspended",
  snapshotting: "stopping",
  stopping: "stopping",
  stopped: "killed",
  failed: "killed",
  aborted: "killed",
};

type VmStatus = "pending" | "active" | "stopping" | "suspended" | "killed";

export function time(ms: number): string {
  return new Date(ms).toISOString().slice(0, "2025-01-18T10:30:00".length);
}

/** prints a machine, running or ended, for the list of sandboxes */
export function sandboxInfo(session: SessionSummary): object {
  const template = session.sourceSnapshotId ?? null;
  return {
    sandbox_id: session.id,
    template_id: template,
    name: template ?? "default",
    metadata: session.tags,
    started_at: time(session.startedAt ?? session.requestedAt),
    end_at: orNull(session.expiresAt, time),
    status: statuses[session.state],
  };
}

/** a machine is suspended when it has ended with a snapshot and no other machine has replaced it */
export function vmStatus({ session, sandbox }: Vm): VmStatus {
  const kept = isOver(session.state) && session.snapshottedAt !== undefined;
  return kept && sandbox.currentSessionId === session.id ? "suspended" : statuses[session.state];
}

export function session(it: Vm): object {
  const { session: machine, sandbox } = it;
  return {
    session_id: sandbox.id,
    vm_id: machine.id,
    vm_status: vmStatus(it),
    vm_lifetime_seconds: machine.timeout / 1000,
    vcpu_count: machine.vcpus,
    memory_mb: machine.memory,
    metadata: sandbox.tags,
    created_at: time(sandbox.createdAt),
    expires_at: orNull(machine.expiresAt, time),
  };
}

export function vm(it: Vm, domain: string): object {
  const { session: machine, sandbox } = it;
  return {
    vm_id: machine.id,
    session_id: sandbox.id,
    status: vmStatus(it),
    vcpu_count: machine.vcpus,
    memory_mb: machine.memory,
    vm_lifetime_seconds: machine.timeout / 1000,
    metadata: sandbox.tags,
    snapshot_id: machine.sourceSnapshotId ?? null,
    snapshot_on_terminate: sandbox.persistent,
    snapshot_name: sandbox.snapshotName ?? null,
    volumes: mounts(sandbox),
    shares: sandbox.routes.map((route) => share(route, sandbox, domain)),
    created_at: time(machine.createdAt),
    started_at: orNull(machine.startedAt, time),
    end_at: orNull(machine.expiresAt, time),
    ended_at: orNull(machine.stoppedAt, time),
    end_reason: machine.endReason ?? null,
  };
}

export function mounts({ mounts: all }: Sandbox): object[] {
  return Object.entries(all).map(([path, { driveId, drive, mode }]) => ({
    volume_id: driveId,
    name: drive,
    mount_path: path,
    mode: mode === "read-write" ? "rw" : "ro",
  }));
}

export function usage(sandbox: Sandbox, now: Totals): object {
  const { totals } = sandbox;
  return {
    session_id: sandbox.id,
    cpu_time: (totals.cpuMs + now.cpuMs) / 1000,
    run_time: (totals.durationMs + now.durationMs) / 1000,
    ingress_bytes: totals.ingressBytes + now.ingressBytes,
    egress_bytes: totals.egressBytes + now.egressBytes,
  };
}

export interface Output {
  stdout: string;
  stderr: string;
  /** whether output is missing */
  truncated: boolean;
}

/** how long it ran, in seconds; null while it runs */
export function runTime({ startedAt, endedAt }: Command): number | null {
  return endedAt === undefined ? null : Math.max(0, endedAt - startedAt) / 1000;
}

export function execution(it: Command, output: Output | undefined, cpuTime: number | null): object {
  return {
    id: it.id,
    task_id: it.id,
    vm_id: it.sessionId,
    command: [it.name, ...it.args].at(-1) ?? "",
    status: it.endedAt === undefined ? "running" : "completed",
    is_complete: it.endedAt !== undefined,
    exit_code: it.exitCode ?? null,
    created_at: time(it.startedAt),
    execution_time: runTime(it),
    cpu_time: cpuTime,
    ...(output && {
      serialized_stdout: output.stdout,
      serialized_stderr: output.stderr,
      output_truncated: output.truncated,
    }),
  };
}

/** this wire's name for the default image */
export const defaultImageName = "ubuntu";

export function snapshot(it: Snapshot): object {
  return {
    id: it.id,
    snapshot_id: it.id,
    name: it.name ?? it.id,
    status: snapshotStatus[it.state],
    last_error: null,
    snapshot_type: "user",
    oci_image: it.base.imageName ?? defaultImageName,
    size_bytes: it.sizeBytes,
    parent_snapshot_id: it.parentId ?? null,
    vm_id: it.sessionId,
    created_at: time(it.createdAt),
    expires_at: orNull(it.expiresAt, time),
  };
}

const snapshotStatus: Record<Snapshot["state"], string> = { created: "ready", failed: "failed", deleted: "deleted" };

export function volume(it: Drive): object {
  return {
    id: it.id,
    volume_id: it.id,
    name: it.name,
    quota_bytes: it.maxSizeBytes,
    mounted_by: it.sessionId ?? null,
    created_at: time(it.createdAt),
    updated_at: time(it.updatedAt),
  };
}

/** prints a share; its id is the port's label, which cannot be guessed */
export function share({ port, subdomain, closed }: Route, sandbox: Sandbox, domain: string): object {
  return {
    share_id: subdomain,
    vm_id: sandbox.currentSessionId,
    session_id: sandbox.id,
    port,
    is_public: closed !== true,
    url: portUrl(domain, subdomain),
  };
}

export function key({ id, name, hint, createdAt }: Omit<ApiKey, "hash">): object {
  return { id, description: name, key_hint: hint, created_at: time(createdAt) };
}

function orNull<T>(value: T | undefined, print: (value: T) => string): string | null {
  return value === undefined ? null : print(value);
}
