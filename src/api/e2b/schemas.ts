/** Schemas of what E2B's clients send. A member that no schema names is refused rather than ignored. */

import { isIP } from "node:net";
import { z } from "zod";
import { parseCidr } from "../../core/network/cidr.ts";
import type { ServiceLimits } from "../kit/dialect.ts";
import { environment } from "../kit/environment.ts";
import { domainName } from "../kit/policy/network-names.ts";

export type Schemas = ReturnType<typeof schemas>;
export type Network = z.output<typeof network>;

const mostRanges = 100;
const mostPages = 100;

const metadata = z.record(z.string().min(1).max(256), z.string().max(4096));

/** an IP address or a subnet */
const range = z
  .string()
  .max(64)
  .refine((text) => isIP(text) !== 0 || (text.includes("/") && parseCidr(text) !== undefined), {
    error: "an entry of `denyOut` should be an address or a subnet in CIDR notation.",
  });
const destination = z.union([range, domainName], {
  error: "an entry of `allowOut` should be an address, a subnet in CIDR notation or a domain.",
});

const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/);
const headerValue = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/);

const transform = z.strictObject({ headers: z.record(headerName, headerValue).optional() });
/** a key of `rules` */
const ruledHost = z
  .string()
  .refine((text) => isIP(text) === 0 && !text.includes("/"), {
    error: "a key of `rules` should be a domain: rules for addresses and subnets are not offered here.",
    abort: true,
  })
  .pipe(domainName);

const egress = {
  allowOut: z.array(destination).max(mostRanges).optional(),
  denyOut: z.array(range).max(mostRanges).optional(),
  rules: z.record(ruledHost, z.array(z.strictObject({ transform: transform.optional() })).max(10)).nullish(),
  egressProxy: notHere("`egressProxy`", "a proxy for a sandbox's traffic is not offered here"),
};

const network = z.strictObject({
  ...egress,
  allowPublicTraffic: z.boolean().optional(),
  maskRequestHost: z
    .string()
    .regex(/^[A-Za-z0-9.:_${}-]{1,255}$/)
    .optional(),
  httpsPorts: z.array(z.never({ error: "`httpsPorts` is not offered here: ports are reached by HTTP." })).optional(),
});

export function schemas(limits: Pick<ServiceLimits, "timeout">) {
  // 0 ends a sandbox at once, by pause or for good.
  const timeout = z
    .int()
    .min(0)
    .max(Math.floor(limits.timeout / 1000));
  const page = {
    limit: number(z.int().min(1).max(mostPages)).default(mostPages),
    nextToken: z.string().min(1).max(4096).optional(),
  };
  return {
    emptyQuery: z.strictObject({}),
    pageQuery: z.strictObject(page),
    emptyBody: z.strictObject({}),
    createBody: z
      .strictObject({
        templateID: z.string().min(1).max(256),
        timeout: timeout.optional(),
        metadata: metadata.nullish(),
        envVars: environment.nullish(),
        // Every sandbox is secure: clients send their token even if they did not ask for this.
        secure: z.boolean().optional(),
        allow_internet_access: z.boolean().optional(),
        autoPause: z.boolean().optional(),
        autoPauseMemory: z.boolean().optional(),
        autoResume: z.strictObject({ enabled: z.boolean() }).nullish(),
        network: network.nullish(),
        volumeMounts: z
          .array(z.strictObject({ name: volumeName, path: mountPath }))
          .max(16)
          .nullish(),
        iam: notHere("`iam`", "tokens of workload identities are not offered here"),
        mcp: notHere("`mcp`", "the MCP gateway is not offered here"),
      })
      .refine(({ autoPauseMemory, autoPause }) => autoPauseMemory !== false || autoPause === true, {
        error: "`autoPauseMemory` may only be false when `autoPause` is true.",
      })
      .refine(({ autoResume, autoPause }) => !autoResume?.enabled || autoPause === true, {
        error: "`autoResume` may only be enabled when `autoPause` is true.",
      })
      .refine(({ autoPauseMemory, autoResume }) => autoPauseMemory !== false || !autoResume?.enabled, {
        error: "`autoResume` may not be enabled when `autoPauseMemory` is false.",
      }),
    connectBody: z.strictObject({ timeout: timeout.optional(), memory: z.boolean().optional() }),
    resumeBody: z.strictObject({
      timeout: timeout.optional(),
      autoPause: z.boolean().optional(),
      memory: z.boolean().optional(),
    }),
    pauseBody: z.strictObject({ memory: z.boolean().optional() }),
    timeoutBody: z.strictObject({ timeout }),
    refreshBody: z.strictObject({ duration: z.int().min(0).max(3600).optional() }),
    forkBody: z.strictObject({ timeout: timeout.optional(), count: z.int().min(1).max(100).optional() }),
    networkBody: z.strictObject({ ...egress, allow_internet_access: z.boolean().optional() }),
    snapshotBody: z.strictObject({ name: snapshotName.optional() }),
    snapshotsQuery: z.strictObject({
      sandboxID: z.string().max(256).optional(),
      name: snapshotName.optional(),
      ...page,
    }),
    runningQuery: z.strictObject({ metadata: z.string().max(16_384).optional() }),
    listQuery: z.strictObject({
      metadata: z.string().max(16_384).optional(),
      state: z
        .union([z.string(), z.array(z.string())])
        .transform((given) => [given].flat().flatMap((each) => each.split(",")))
        .pipe(
          z
            .array(z.enum(["running", "paused"]))
            .min(1)
            .max(10),
        )
        .optional(),
      startedAfter: z.iso.datetime({ offset: true }).optional(),
      template: z.string().min(1).max(256).optional(),
      order: z.enum(["asc", "desc"]).default("desc"),
      ...page,
    }),
    metricsQuery: z.strictObject({ start: seconds.optional(), end: seconds.optional() }),
    allMetricsQuery: z.strictObject({
      sandbox_ids: z
        .string()
        .max(16_384)
        .transform((text) => text.split(","))
        .pipe(z.array(z.string().min(1)).max(100)),
    }),
    logsQuery: z.strictObject({
      start: number(z.int().min(0)).optional(),
      limit: number(z.int().min(0).max(mostLogs)).default(mostLogs),
    }),
    logs2Query: z.strictObject({
      cursor: number(z.int().min(0)).optional(),
      limit: number(z.int().min(0).max(mostLogs)).default(mostLogs),
      direction: z.enum(["forward", "backward"]).default("forward"),
      level: z.enum(["debug", "info", "warn", "error"]).optional(),
      search: z.string().max(256).optional(),
    }),
    volumeBody: z.strictObject({ name: volumeName }),
    volumePathQuery: z.strictObject({ path: volumePath }),
    volumeListQuery: z.strictObject({ path: volumePath, depth: number(z.int().min(1).max(32)).default(1) }),
    volumeOwnerBody: z.strictObject({ uid: userId.optional(), gid: userId.optional(), mode: fileMode.optional() }),
    volumeWriteQuery: z.strictObject({
      path: volumePath,
      uid: number(userId).optional(),
      gid: number(userId).optional(),
      mode: number(fileMode).optional(),
      force: z
        .enum(["true", "false"])
        .default("false")
        .transform((text) => text === "true"),
    }),
  };
}

const volumePath = z.string().min(1).max(4096);
const userId = z.int().min(0).max(65_534);
const fileMode = z.int().min(0).max(0o7777);
const mostLogs = 1000;
const seconds = number(z.int().min(0));
const volumeName = z
  .string()
  .max(128)
  .regex(/^[a-zA-Z0-9_-]+$/);
const mountPath = z
  .string()
  .max(4096)
  .regex(/^\/[^\0]*[^/\0]$/);
/** with or without the team before it and a tag after it */
const snapshotName = z
  .string()
  .max(256)
  .regex(/^([A-Za-z0-9_-]+\/)?[A-Za-z0-9][A-Za-z0-9_-]{0,127}(:[A-Za-z0-9_.-]{1,64})?$/);

/** a number in a query */
export function number<S extends z.ZodNumber>(schema: S) {
  return z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(schema);
}

/** a member of E2B's API that we do not support; null is accepted, because some clients send it */
function notHere(name: string, why: string) {
  return z.null({ error: `${name} cannot be served: ${why}.` }).optional();
}
