/** Prints the core's objects for the tools' answers. */

import { z } from "zod";
import { nameOfBase } from "../../core/model/image.ts";
import type { Route, Sandbox, Snapshot } from "../../core/model/sandbox.ts";
import type { Booted } from "../../core/sandboxes/sandboxes.ts";
import { portUrl } from "../kit/port-url.ts";
import { policy, printPolicy } from "./policy.ts";
import type { McpDialect } from "./tool.ts";

const time = z.string().describe("ISO 8601.");
const nothing = z.null();

const portFields = { port: z.int(), url: z.string().describe("Where it is reached over HTTP.") };

export const sandboxFields = {
  sandbox: z.string().describe("Its name, by which the other tools know it."),
  session_id: z.string().describe("Its session: each run has another."),
  status: z
    .enum(["pending", "running", "paused", "snapshotting", "stopping", "stopped", "failed", "aborted"])
    .describe("Commands and files work while it is running; resume_sandbox continues a paused one."),
  image: z.string().describe("The image that it boots from."),
  cwd: z.string().describe("Where commands start and relative paths begin."),
  vcpus: z.int(),
  memory_mib: z.int(),
  persistent: z.boolean().describe("Whether its files are kept when it stops."),
  network_policy: policy,
  ports: z.array(z.strictObject(portFields)),
  tags: z.record(z.string(), z.string()),
  created_at: time,
  expires_at: z.union([time, nothing]).describe("When it is stopped unless it is extended; null when it does not run."),
  snapshot_id: z
    .union([z.string(), nothing])
    .describe("What resume_sandbox would start from; null when there is none."),
};

/** what a new sandbox says if it has another runtime than its caller asked for */
export const note = z.string().optional().describe("What differs from what was asked for.");

export function runtimeNote(asked: string | undefined, { image, runtime }: Sandbox["base"]): string | undefined {
  if (asked === undefined || asked === runtime) return undefined;
  const instead = `No image named "${asked}" is here, so the default image "${image}" runs, which may have other versions`;
  return `${instead}: run node --version or python3 --version to see them.`;
}

export const routeFields = { sandbox: z.string(), ...portFields };

export const snapshotFields = {
  snapshot_id: z.string(),
  sandbox: z.string(),
  size_bytes: z.int().min(0),
  created_at: time,
  expires_at: z.union([time, nothing]).describe("When it is deleted unless it is used before; null for never."),
};

export function printSandbox({ sandbox: it, session }: Booted, dialect: McpDialect): Printed<typeof sandboxFields> {
  return {
    sandbox: it.name,
    session_id: session.id,
    status: session.state,
    image: nameOfBase(it.base),
    cwd: session.cwd,
    vcpus: session.vcpus,
    memory_mib: session.memory,
    persistent: it.persistent,
    network_policy: printPolicy(session.networkPolicy),
    // Leave out ports that another wire has closed: their URLs lead nowhere.
    ports: it.routes.filter(({ closed }) => !closed).map((route) => printRoute(route, dialect)),
    tags: Object.fromEntries(
      Object.entries(it.tags).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
    ),
    created_at: iso(it.createdAt),
    expires_at: session.expiresAt === undefined ? null : iso(session.expiresAt),
    snapshot_id: it.currentSnapshotId ?? null,
  };
}

export function printRoute({ port, subdomain }: Route, { domain }: McpDialect): { port: number; url: string } {
  return { port, url: portUrl(domain(), subdomain) };
}

export function printSnapshot(it: Snapshot): Printed<typeof snapshotFields> {
  return {
    snapshot_id: it.id,
    sandbox: it.sandboxName,
    size_bytes: it.sizeBytes,
    created_at: iso(it.createdAt),
    expires_at: it.expiresAt === undefined ? null : iso(it.expiresAt),
  };
}

type Printed<Fields extends z.core.$ZodLooseShape> = z.output<z.ZodObject<Fields>>;

function iso(at: number): string {
  return new Date(at).toISOString();
}
