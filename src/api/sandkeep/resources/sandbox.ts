/** A sandbox: its settings, its current session, and what requests may say about a new or changed one. */

import { z } from "zod";
import { nameOfBase } from "../../../core/model/image.ts";
import type { Sandbox } from "../../../core/model/sandbox.ts";
import type { Booted, ForkSpec } from "../../../core/sandboxes/sandboxes.ts";
import type { ServiceLimits } from "../../kit/dialect.ts";
import { environment } from "../../kit/environment.ts";
import { portUrl } from "../../kit/port-url.ts";
import { networkPolicy, newNetworkPolicy, printPolicy, readPolicy } from "./network-policy.ts";
import { printSession, sessionResource } from "./session.ts";
import { bytes, duration, expiration, memory, sessionState, tagValue, time } from "./values.ts";

export const portResource = z
  .object({
    port: z.int(),
    url: z.string().nullable().meta({ description: "Where clients reach it; null while the port is closed" }),
    subdomain: z.string(),
  })
  .meta({ id: "Port" });

export const sandboxResource = z
  .object({
    id: z.string(),
    name: z.string().meta({ description: "Unique in its project" }),
    projectId: z.string(),
    state: sessionState.meta({ description: "State of its current session" }),
    stateChangedAt: time,
    image: z.string().meta({ description: "Name of its image" }),
    runtime: z.string().nullable(),
    vcpus: z.number(),
    memory,
    timeout: duration.meta({ description: "Longest that a session may run, in milliseconds" }),
    lifetime: z.enum(["fixed", "idle", "unlimited"]),
    onTimeout: z.enum(["stop", "pause"]),
    persistent: z.boolean(),
    networkPolicy: networkPolicy.meta({ description: "Of later sessions; the current one may have its own" }),
    envNames: z.array(z.string()).meta({ description: "Names of its variables; values are never shown" }),
    tags: z.record(z.string(), tagValue),
    ports: z.array(portResource),
    mounts: z.record(z.string(), z.object({ drive: z.string(), mode: z.enum(["read-write", "snapshot"]) })),
    region: z.string(),
    snapshotExpiration: duration.nullable(),
    keepLastSnapshots: z
      .object({ count: z.int(), expiration: duration.nullable(), deleteEvicted: z.boolean() })
      .nullable(),
    currentSnapshotId: z.string().nullable().meta({ description: "What its next session starts from" }),
    session: sessionResource.meta({ description: "Its current session, which may have ended" }),
    totals: z
      .object({ durationMs: duration, cpuMs: duration, bytesIn: bytes, bytesOut: bytes })
      .meta({ description: "Of all its sessions that have ended" }),
    madeBy: z
      .object({
        keyId: z.string().nullable(),
        wire: z.string().nullable().meta({ description: "The API that was used" }),
      })
      .meta({ description: "Who made it; null where that is not known" }),
    createdAt: time,
    updatedAt: time,
  })
  .meta({ id: "Sandbox" });

export function printSandbox({ sandbox, session }: Booted, domain: string): z.input<typeof sandboxResource> {
  const { keepLastSnapshots: kept, totals } = sandbox;
  return {
    id: sandbox.id,
    name: sandbox.name,
    projectId: sandbox.projectId,
    state: session.state,
    stateChangedAt: sandbox.stateChangedAt,
    image: nameOfBase(sandbox.base),
    runtime: sandbox.base.runtime ?? null,
    vcpus: sandbox.vcpus,
    memory: sandbox.memory,
    timeout: sandbox.timeout,
    lifetime: sandbox.lifetime ?? "fixed",
    onTimeout: sandbox.onTimeout ?? "stop",
    persistent: sandbox.persistent,
    networkPolicy: printPolicy(sandbox.networkPolicy),
    envNames: Object.keys(sandbox.env),
    tags: sandbox.tags,
    ports: sandbox.routes.map((route) => printPort(route, domain)),
    mounts: Object.fromEntries(
      Object.entries(sandbox.mounts).map(([path, { drive, mode }]) => [path, { drive, mode }]),
    ),
    region: sandbox.region,
    snapshotExpiration: sandbox.snapshotExpiration ?? null,
    keepLastSnapshots: kept ? { ...kept, expiration: kept.expiration ?? null } : null,
    currentSnapshotId: sandbox.currentSnapshotId ?? null,
    session: printSession(session),
    totals: {
      durationMs: totals.durationMs,
      cpuMs: totals.cpuMs,
      bytesIn: totals.ingressBytes,
      bytesOut: totals.egressBytes,
    },
    madeBy: { keyId: sandbox.madeBy?.keyId ?? null, wire: sandbox.madeBy?.wire ?? null },
    createdAt: sandbox.createdAt,
    updatedAt: sandbox.updatedAt,
  };
}

export function printPort({ port, subdomain, closed }: Sandbox["routes"][number], domain: string) {
  return { port, subdomain, url: closed ? null : portUrl(domain, subdomain) };
}

const mostTags = 64;
const mostMounts = 64;
/** sizes of machines, in MiB */
const leastMemory = 64;

/** the schemas of new and changed sandboxes on a host with these limits */
export function sandboxBodies({ ports: mostPorts, vcpus, timeout }: ServiceLimits) {
  const settings = {
    vcpus: z.number().min(0.1).max(vcpus).optional(),
    memory: z
      .int()
      .min(leastMemory)
      .max(1 << 20)
      .optional()
      .meta({ description: "MiB; by default by its processors" }),
    timeout: z.int().min(1000).max(timeout).optional().meta({ description: "Milliseconds" }),
    onTimeout: z.enum(["stop", "pause"]).optional(),
    persistent: z.boolean().optional(),
    networkPolicy: newNetworkPolicy.optional(),
    env: environment.optional(),
    tags: z
      .record(z.string().min(1).max(256), tagValue)
      .refine(
        (tags) => Object.keys(tags).length <= mostTags,
        `\`tags\` should NOT have more than ${mostTags} properties.`,
      )
      .optional(),
    ports: z.array(z.int().min(1).max(65_535)).max(mostPorts).optional(),
    mounts: z
      .record(
        z.string().regex(/^\/[^\0]{1,4095}$/, "a drive is mounted at an absolute path below the root."),
        z.strictObject({
          drive: z.string().min(1).max(128),
          mode: z.enum(["read-write", "snapshot"]).default("read-write"),
        }),
      )
      .refine(
        (mounts) => Object.keys(mounts).length <= mostMounts,
        `\`mounts\` should NOT have more than ${mostMounts} properties.`,
      )
      .optional(),
    snapshotExpiration: expiration.optional(),
    keepLastSnapshots: z
      .strictObject({
        count: z.int().min(1).max(100),
        expiration: expiration.optional(),
        deleteEvicted: z.boolean().default(false),
      })
      .optional(),
  };
  const name = newName().optional();
  const fork = z.strictObject({ name, ...settings, lifetime: z.enum(["fixed", "idle", "unlimited"]).optional() });
  return {
    create: fork
      .extend({
        image: z.string().min(1).max(512).optional(),
        runtime: z.string().min(1).max(64).optional(),
        source: source.optional(),
        user: z.string().min(1).max(256).optional(),
        cwd: z.string().regex(/^\//, "`cwd` should be an absolute path.").max(4096).optional(),
      })
      .meta({ id: "NewSandbox" }),
    fork: fork.meta({ id: "Fork" }),
    change: z
      .strictObject({ ...settings, currentSnapshotId: z.string().min(1).max(128).optional() })
      .meta({ id: "SandboxChanges" }),
  };
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** the schema of names that callers choose */
export function newName(): z.ZodString {
  const rule = "begins with a letter or digit, and has at most 128 letters, digits, dots, dashes and underscores";
  return z.string().regex(namePattern, `a name ${rule}.`);
}

const source = z
  .discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("snapshot"), snapshotId: z.string().min(1).max(128) }),
    z.strictObject({
      kind: z.literal("git"),
      url: z.url({ protocol: /^https?$/ }).max(4096),
      revision: z.string().min(1).max(256).optional(),
      depth: z.int().min(1).max(1_000_000).optional(),
      username: z.string().max(256).optional(),
      password: z.string().max(4096).optional(),
      directory: z.string().min(1).max(4096).optional(),
    }),
    z.strictObject({ kind: z.literal("tarball"), url: z.url({ protocol: /^https?$/ }).max(4096) }),
  ])
  .meta({ id: "SandboxSource", description: "What fills the sandbox before its first command" });

type Bodies = ReturnType<typeof sandboxBodies>;

/** settings as the core takes them */
export function settingsOf({
  networkPolicy: policy,
  lifetime,
  onTimeout,
  ...settings
}: z.output<Bodies["fork"]>): ForkSpec {
  return {
    ...settings,
    ...(lifetime !== undefined && lifetime !== "fixed" && { lifetime }),
    ...(onTimeout === "pause" && { onTimeout }),
    ...(policy !== undefined && { networkPolicy: readPolicy(policy) }),
    keepLastSnapshots: keptSnapshots(settings.keepLastSnapshots),
  };
}

/** a new sandbox as the core takes it */
export function specOf({ image, runtime, source, user, cwd, ...settings }: z.output<Bodies["create"]>) {
  return { ...settingsOf(settings), base: { image, runtime }, source, user, cwd };
}

function keptSnapshots(kept: z.output<Bodies["fork"]>["keepLastSnapshots"]): ForkSpec["keepLastSnapshots"] {
  if (!kept) return undefined;
  const { expiration, ...others } = kept;
  return { ...others, ...(expiration !== undefined && { expiration }) };
}
