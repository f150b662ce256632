/** The settings of a new sandbox in the tools' format, shared by create and fork. */

import { z } from "zod";
import type { Sandbox } from "../../core/model/sandbox.ts";
import type { ForkSpec } from "../../core/sandboxes/sandboxes.ts";
import { describedPolicy, policy, policyOf } from "./policy.ts";
import { env, text } from "./schema.ts";
import type { Call, McpLimits } from "./tool.ts";

const second = 1000;
/** words that other wires use in place of a name */
const reserved = ["sessions", "snapshots", "drives", "named"];

export const tags = z
  .record(text(256).min(1), text(256))
  .refine((pairs) => Object.keys(pairs).length <= 16, "`tags` should NOT have more than 16 properties.");

export const port = z.int().min(1024).max(65_535);

export function settings({ vcpus, timeout, ports }: McpLimits) {
  return {
    name: text(128)
      .min(1)
      .regex(/^[a-zA-Z0-9_-]+$/)
      .refine((name) => !reserved.includes(name), `\`name\` should NOT be one of ${reserved.join(", ")}.`)
      .optional()
      .describe("Name of the new sandbox; must not be taken. Default: a generated one."),
    vcpus: z.int().min(1).max(vcpus).optional().describe("Processors, each with 2 GiB of memory."),
    timeout_seconds: z
      .int()
      .min(1)
      .max(Math.floor(timeout / second))
      .optional()
      .describe("How long it runs before it stops by itself."),
    env: env.optional().describe("Environment variables of every command."),
    tags: tags.optional().describe("Labels to find it by."),
    ports: z.array(port).max(ports).optional().describe("Ports to give a URL."),
    network_policy: describedPolicy.optional().describe("What it may reach. Default: allow-all."),
  };
}

/** the same with shorter descriptions: a model that forks has read those of create */
export function forkSettings(limits: McpLimits) {
  const all = settings(limits);
  return {
    name: all.name,
    env: all.env.describe("Replaces its environment variables."),
    tags: all.tags.describe("Replaces its labels."),
    ports: all.ports.describe("Replaces its ports."),
    vcpus: all.vcpus.describe("Processors."),
    timeout_seconds: all.timeout_seconds,
    network_policy: policy.optional().describe("As in create_sandbox. Default: the original's."),
  };
}

type Settings = z.output<z.ZodObject<ReturnType<typeof settings>>>;

/** leaves out members that were not given: a fork takes them from its origin */
export function settingsOf({ timeout_seconds: seconds, network_policy: wanted, ...plain }: Settings): ForkSpec {
  return {
    ...Object.fromEntries(Object.entries(plain).filter(([, value]) => value !== undefined)),
    ...(seconds !== undefined && { timeout: seconds * second }),
    ...(wanted !== undefined && { networkPolicy: policyOf(wanted) }),
  };
}

/** deletes a new sandbox if its caller has cancelled the call */
export async function undoIfAborted({ core, signal }: Call, sandbox: Sandbox): Promise<void> {
  if (!signal.aborted) return;
  await core.sandboxes.abandon(sandbox, sandbox.id);
  signal.throwIfAborted();
}
