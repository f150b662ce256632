/**
 * Schemas of what Vercel's clients send. A member that no schema names is refused rather than ignored. Members that
 * begin with two underscores are private to the vendor's clients, and request.ts removes them first. http.ts refuses
 * strings with a NUL when it reads them.
 */

import { posix } from "node:path";
import { z } from "zod";
import { environment } from "../kit/environment.ts";
import { isWebUrl } from "../kit/web-url.ts";
import type { VercelLimits } from "./limits.ts";
import { networkPolicySchema } from "./network-policy.ts";

const day = 86_400_000;
/** longest duration, in ms; added to a time it is still a safe integer */
const century = 36_525 * day;

export const namePattern = /^[a-zA-Z0-9_-]+$/;
/** words that routes use in place of a name */
const reservedNames = ["sessions", "snapshots", "drives", "named"];

const text = (longest: number) => z.string().max(longest);
const path = z.string().min(1).max(4096);
const project = z.string().min(1).max(255);
const expiration = z.custom<number>(
  (value) => Number.isSafeInteger(value) && (value === 0 || ((value as number) >= day && (value as number) <= century)),
  {
    error: ({ path: at = [] }) => `\`${at.join(".")}\` must be 0 (no expiration) or >= ${day} ms (1 day).`,
    params: { isWhole: true },
  },
);
const webUrl = z.string().max(4096).refine(isWebUrl, "`source.url` should be an http or https URL.");
/** ms since 1970; a fraction marks where a page of version 1 begins (v1/pagination.ts) */
const timestamp = z
  .string()
  .regex(/^\d{1,16}(\.\d{1,16})?$/)
  .transform(Number)
  .pipe(z.number().max(8.64e15));
const bool = z.enum(["true", "false"]).transform((value) => value === "true");
const digits = z
  .string()
  .regex(/^\d{1,9}$/)
  .transform(Number);
const order = z.enum(["asc", "desc"]);
const scope = { teamId: z.string().min(1).max(255).optional(), slug: z.string().min(1).max(255).optional() };
const page = (longest: number, usual: number) => ({
  limit: digits.pipe(z.number().min(1).max(longest)).default(usual),
  cursor: z.string().min(1).max(4096).optional(),
  sortOrder: order.default("desc"),
});

export type Schemas = ReturnType<typeof schemas>;

export function schemas(limits: VercelLimits) {
  const timeout = z.int().min(1000).max(limits.timeout);
  const region = z.enum(limits.regions as [string, ...string[]]);
  const name = z
    .string()
    .min(1)
    .max(128)
    .regex(namePattern)
    .refine((value) => !reservedNames.includes(value), `\`name\` should NOT be one of ${reservedNames.join(", ")}.`);
  const driveName = z.string().min(1).max(64).regex(namePattern);

  const resources = z
    .strictObject({
      vcpus: z
        .int()
        .min(1)
        .max(limits.vcpus)
        .refine((count) => count === 1 || count % 2 === 0, "`resources.vcpus` should be 1 or an even number."),
      memory: z.int().optional(),
    })
    .refine(({ vcpus, memory }) => memory === undefined || memory === vcpus * 2048, {
      error: "`resources.memory` should be 2048 times `resources.vcpus`.",
    });

  const settings = {
    persistent: z.boolean().optional(),
    resources: resources.optional(),
    timeout: timeout.optional(),
    networkPolicy: networkPolicySchema.optional(),
    ports: z.array(z.int().min(1024).max(65535)).max(limits.ports).optional(),
    env: environment.optional(),
    tags: z
      .record(z.string().min(1).max(256), z.string().max(limits.tagLength))
      .refine((tags) => Object.keys(tags).length <= limits.tags, {
        error: `\`tags\` should NOT have more than ${limits.tags} properties.`,
      })
      .optional(),
    snapshotExpiration: expiration.optional(),
    region: region.optional(),
    failoverRegions: z.array(region).max(limits.regions.length).optional(),
    mounts: z
      .record(
        path.refine(isMountPoint, "a path in `mounts` should be absolute, and not the root."),
        z.strictObject({
          drive: driveName,
          mode: z.enum(["read-write", "snapshot", "read-only"]).default("read-write"),
        }),
      )
      .refine((mounts) => Object.keys(mounts).length <= limits.mounts, {
        error: `\`mounts\` should NOT have more than ${limits.mounts} properties.`,
      })
      .refine((mounts) => !overlap(Object.keys(mounts)), "the paths in `mounts` should NOT overlap.")
      .optional(),
  };
  const source = z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("git"),
      url: webUrl,
      depth: z.int().min(1).max(1_000_000).optional(),
      revision: z
        .string()
        .min(1)
        .max(255)
        .regex(/^[^-\s]\S*$/)
        .optional(),
      username: text(1024).optional(),
      password: text(8192).optional(),
    }),
    z.strictObject({ type: z.literal("tarball"), url: webUrl }),
    z.strictObject({ type: z.literal("snapshot"), snapshotId: z.string().min(1).max(128) }),
  ]);
  const runtime = z.string().min(1).max(64);
  const run = {
    command: text(4096).min(1),
    args: z
      .array(text(2 << 20))
      .max(65_536)
      .default([]),
    cwd: path.optional(),
    env: environment.default({}),
    sudo: z.boolean().default(false),
    wait: z.boolean().default(false),
  };
  const networkId = z.string().min(1).max(255);
  const image = z.string().max(255).regex(/^\S+$/);
  const keepLastSnapshots = z.strictObject({
    count: z.int().min(1).max(10),
    expiration: expiration.optional(),
    deleteEvicted: z.boolean().default(true),
  });

  return {
    createBody: z
      .strictObject({
        ...settings,
        projectId: project.optional(),
        name: name.optional(),
        networkId: networkId.optional(),
        keepLastSnapshots: keepLastSnapshots.optional(),
        source: source.optional(),
        runtime: runtime.optional(),
        image: image.optional(),
      })
      .refine(({ runtime, image }) => runtime === undefined || image === undefined, {
        error: "`runtime` and `image` should NOT be given together.",
      }),
    forkBody: z.strictObject({
      ...settings,
      name: name.optional(),
      networkId: networkId.optional(),
      keepLastSnapshots: keepLastSnapshots.optional(),
      image: image.optional(),
    }),
    updateBody: z.strictObject({
      ...settings,
      networkId: networkId.nullable().optional(),
      keepLastSnapshots: keepLastSnapshots.nullable().optional(),
      currentSnapshotId: z.string().min(1).max(128).optional(),
      runtime: runtime.optional(),
    }),
    snapshotBody: z.strictObject({ expiration: expiration.optional() }),
    // The core decides how long a session may run in total.
    extendBody: z.strictObject({ duration: z.int().min(1000).max(century) }),
    networkPolicyBody: networkPolicySchema,
    emptyBody: z.strictObject({}),
    runBody: z
      .strictObject({
        ...run,
        logs: z.boolean().default(false),
        timeout: z.int().min(100).max(limits.timeout).optional(),
        attachStdin: z.boolean().default(false),
      })
      .refine(({ wait, logs }) => wait || !logs, "`logs` is only valid when `wait` is `true`"),
    // With `group`, which only our own clients send, the children get the signal too.
    killBody: z.strictObject({ signal: z.int().min(1).max(64).default(15), group: z.boolean().default(false) }),
    stdinBody: z.strictObject({
      data: z.base64().default(""),
      offset: z.int().min(0).optional(),
      close: z.boolean().default(false),
    }),
    mkdirBody: z.strictObject({ path, cwd: path.optional(), recursive: z.boolean().default(false) }),
    readBody: z.strictObject({ path, cwd: path.optional() }),
    driveBody: z.strictObject({
      projectId: project.optional(),
      maxSizeBytes: z
        .int()
        .min(1 << 20)
        .max(limits.driveSize)
        .optional(),
      region: region.optional(),
    }),
    driveForkBody: z.strictObject({ name: driveName }),
    projectBody: z.strictObject({
      name: z
        .string()
        .max(100)
        .regex(/^[a-z0-9][a-z0-9._-]*$/),
    }),

    v1CreateBody: z.strictObject({
      projectId: project.optional(),
      ports: settings.ports,
      source: source.optional(),
      timeout: settings.timeout,
      resources: settings.resources,
      runtime: runtime.optional(),
      networkPolicy: settings.networkPolicy,
      env: settings.env,
    }),
    v1RunBody: z
      .strictObject(run)
      .transform((body) => ({ ...body, logs: false, timeout: undefined, attachStdin: false })),
    v1ListQuery: z.strictObject({
      ...scope,
      project: project.optional(),
      limit: digits.pipe(z.number().min(1).max(1000)).default(20),
      since: timestamp.optional(),
      until: timestamp.optional(),
    }),

    scopeQuery: z.strictObject(scope),
    sandboxQuery: z.strictObject({ ...scope, projectId: project.optional() }),
    getQuery: z.strictObject({ ...scope, projectId: project.optional(), resume: bool.default(false) }),
    deleteQuery: z.strictObject({
      ...scope,
      projectId: project.optional(),
      deleteOrphanSnapshots: bool.default(false),
    }),
    sandboxesQuery: z
      .strictObject({
        ...scope,
        ...page(50, 20),
        project: project.optional(),
        sortBy: z.enum(["createdAt", "name", "statusUpdatedAt", "currentSnapshotId"]).default("createdAt"),
        namePrefix: z.string().min(1).max(128).optional(),
        status: z.enum(["running", "stopping", "stopped"]).optional(),
        tags: z
          .string({ error: "only one tag filter is supported at a time." })
          .max(1024)
          .regex(/^[^:]+:/, "`tags` should be of the form `key:value`.")
          .optional(),
      })
      .refine(({ sortBy, namePrefix }) => namePrefix === undefined || sortBy === "name", prefixWords)
      .refine(({ sortBy, status }) => status === undefined || sortBy === "createdAt", {
        error: "`status` is only valid when `sortBy` is `createdAt`",
      }),
    historyQuery: z.strictObject({
      ...scope,
      ...page(50, 20),
      project: project.optional(),
      name: z.string().min(1).max(128).regex(namePattern).optional(),
    }),
    treeQuery: z.strictObject({
      ...scope,
      project: project.optional(),
      snapshotId: z.string().min(1).max(128),
      limit: digits.pipe(z.number().min(1).max(10)).default(10),
      sortOrder: order.default("desc"),
    }),
    drivesQuery: z
      .strictObject({
        ...scope,
        ...page(50, 20),
        projectId: project.optional(),
        sortBy: z.enum(["createdAt", "updatedAt", "name"]).default("createdAt"),
        namePrefix: z.string().min(1).max(64).optional(),
      })
      .refine(({ sortBy, namePrefix }) => namePrefix === undefined || sortBy === "name", prefixWords),
    commandQuery: z.strictObject({ ...scope, wait: bool.default(false) }),
    // The Python SDK sends both here as well as in the body.
    runQuery: z.strictObject({ ...scope, wait: bool.default(false), logs: bool.default(false) }),
    teamsQuery: z.strictObject({ ...scope, limit: digits.optional(), until: digits.optional() }),
    drivePath: z.strictObject({ name: driveName }),
  };
}

const prefixWords = { error: "`namePrefix` is only valid when `sortBy` is `name`" };

function isMountPoint(value: string): boolean {
  return value.startsWith("/") && value !== "/" && posix.normalize(value).replace(/\/$/, "") === value;
}

function overlap(paths: string[]): boolean {
  return paths.some((one) => paths.some((other) => one !== other && `${other}/`.startsWith(`${one}/`)));
}
