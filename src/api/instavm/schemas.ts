/**
 * Schemas of what InstaVM's clients send, with the limits in its documents. A member that no schema names is refused
 * rather than ignored, which matters most for filters in a query.
 */

import { posix } from "node:path";
import { z } from "zod";
import type { TagValue } from "../../core/model/sandbox.ts";
import { domainName, subnet } from "../kit/policy/network-names.ts";
import { isWebUrl } from "../kit/web-url.ts";
import { words } from "./errors.ts";
import type { InstavmLimits } from "./request.ts";

const text = (longest: number) => z.string().min(1).max(longest);
const path = text(4096);
const id = text(128);
const apiKey = z.string().max(8192).optional();
const flag = z.enum(["true", "false", "True", "False", "1", "0"]).transform((word) => /^(true|1)$/i.test(word));
const whole = (least: number, most: number) =>
  z
    .string()
    .regex(/^[+-]?\d{1,9}$/, words.int_parsing)
    .transform(Number)
    .pipe(z.int().min(least).max(most));
const file = z.instanceof(File, {
  error: ({ input }) => (input === undefined ? words.missing : "Input should be a file"),
});
const port = z.int().min(1).max(65_535);
const env = z.record(
  text(1024).regex(/^[^=]+$/, "The name of an environment variable is empty or has = in it"),
  z.string().max(128 << 10),
);

const deepest = 8;
const mostPairs = 64;
const longestMetadata = 16 << 10;
const metadata = z
  .custom<Record<string, TagValue>>(isObject, words.dict_type)
  .refine((value) => Object.keys(value).length <= mostPairs, `Metadata should have at most ${mostPairs} pairs`)
  .refine((value) => Object.keys(value).every((key) => key !== "" && key.length <= 256), {
    error: "A key of metadata should have 1 to 256 characters",
  })
  .refine((value) => isFlat(value, deepest), `Metadata should nest at most ${deepest} deep`)
  .refine((value) => JSON.stringify(value).length <= longestMetadata, {
    error: `Metadata should be at most ${longestMetadata} characters of JSON`,
  });
/** metadata as JSON text in a query */
const metadataText = z
  .string()
  .max(longestMetadata)
  .transform((value, context) => {
    try {
      return JSON.parse(value) as unknown;
    } catch {
      context.addIssue("Metadata should be a JSON object");
      return z.NEVER;
    }
  })
  .pipe(metadata);

/** bounds of a lifetime, in seconds */
const leastLifetime = 20;
const mostLifetime = 86_400;
const mostMemory = 8192;

const egressMembers = {
  allow_package_managers: z.boolean().optional(),
  allow_http: z.boolean().optional(),
  allow_https: z.boolean().optional(),
  allowed_domains: z.array(domainName).max(1000).optional(),
  allowed_cidrs: z.array(subnet).max(1000).optional(),
};

export type Schemas = ReturnType<typeof schemas>;

export function schemas(limits: InstavmLimits) {
  const lifetime = z
    .int()
    .min(leastLifetime)
    .max(Math.min(mostLifetime, Math.floor(limits.lifetime / 1000)));
  const memory = z
    .int()
    .min(128)
    .max(Math.min(mostMemory, limits.vcpus * 2048));
  const anyVcpus = z.int().min(1).max(Math.min(8, limits.vcpus));
  const vcpus = anyVcpus.refine((count) => count === 1 || count % 2 === 0, "Input should be 1, 2, 4, 6 or 8");
  const machine = {
    vm_lifetime_seconds: lifetime.nullish(),
    memory_mb: memory.nullish(),
    vcpu_count: vcpus.nullish(),
    metadata: metadata.nullish(),
    env: env.nullish(),
  };
  const execution = z
    .strictObject({
      command: code().nullish(),
      code: code().nullish(),
      session_id: id.nullish(),
      language: z.enum(["python", "python3", "bash", "sh", "shell", "javascript", "js", "node"]).nullish(),
      timeout: z.int().min(1).max(600).nullish(),
      vault_ids: z.array(id).max(100).nullish(),
      api_key: apiKey,
    })
    .refine(({ command, code: other }) => (command ?? other ?? undefined) !== undefined, {
      error: words.missing,
      path: ["command"],
    })
    .refine(({ command, code: other }) => command == null || other == null, {
      error: "Only one of command and code should be given",
      path: ["code"],
    });
  const mount = z.strictObject({
    volume_id: id,
    mount_path: path.refine(isMountPoint, "A mount path should be absolute, and not the root"),
    mode: z.enum(["rw", "ro"]).default("rw"),
    checkpoint_id: id.nullish(),
  });
  const quota = z
    .int()
    .min(1 << 20)
    .max(limits.volume);
  const size = z.int().min(1).max(65_535);
  const list = z.strictObject({ limit: whole(1, 1000).default(100) });

  return {
    emptyQuery: z.strictObject({}),
    emptyBody: z.strictObject({}),
    /** accepts `wait`, which changes nothing: the answer always comes when the work is done */
    waitQuery: z.strictObject({ wait: flag.default(true) }),
    listQuery: list,

    sandboxesQuery: z.strictObject({ metadata: metadataText.optional(), limit: whole(1, 1000).default(100) }),
    sessionBody: z.strictObject({ ...machine, api_key: apiKey }),
    appUrlQuery: z.strictObject({ port: whole(1, 65_535).optional() }),

    executeBody: execution,
    executionsQuery: z.strictObject({ session_id: id.optional(), limit: whole(1, 1000).default(100) }),
    killBody: z.strictObject({ session_id: id }),
    uploadForm: z.strictObject({
      file,
      remote_path: path,
      session_id: id,
      recursive: flag.default(false),
    }),
    downloadForm: z.strictObject({ filename: path, session_id: id }),

    vmBody: z.strictObject({
      ...machine,
      session_id: id.nullish(),
      egress_policy: z.strictObject(egressMembers).refine(areReachable, domainWords).nullish(),
      snapshot_id: id.nullish(),
      snapshot_on_terminate: z.boolean().nullish(),
      snapshot_name: text(128).nullish(),
      share: z.strictObject({ port, is_public: z.boolean().default(false) }).nullish(),
      custom_domain: z.looseObject({ domain: text(253) }).nullish(),
      volumes: z.array(mount).max(4).nullish(),
    }),
    vmChanges: z.strictObject({ vm_lifetime_seconds: lifetime.optional(), metadata: metadata.optional() }),
    cloneBody: z.strictObject({ snapshot_name: text(128).nullish() }),
    snapshotBody: z.strictObject({ name: text(128).nullish() }),
    mountBody: mount,
    unmountQuery: z.strictObject({ mount_path: path.optional(), wait: flag.default(true) }),

    imageBody: z.strictObject({
      oci_image: text(255).regex(/^\S+$/, "An image's name has no blanks in it"),
      name: text(128).nullish(),
      vcpu_count: anyVcpus.default(Math.min(2, limits.vcpus)),
      memory_mb: memory.default(512),
      type: z.enum(["user", "system"]).default("user"),
      build_args: z
        .strictObject({
          extra_apt_packages: z.string().max(4096).nullish(),
          extra_pip_packages: z.string().max(4096).nullish(),
          extra_npm_packages: z.string().max(4096).nullish(),
          git_clone_url: z.string().max(4096).refine(isWebUrl, "Input should be an http or https URL").nullish(),
          git_clone_branch: z
            .string()
            .max(255)
            .regex(/^[^-\s]\S*$/, "That is no branch")
            .nullish(),
          disk_size_gb: z.int().min(1).max(3).nullish(),
          envs: env.nullish(),
          post_build_cmd: z
            .string()
            .max(64 << 10)
            .nullish(),
        })
        .nullish(),
    }),
    snapshotsQuery: z.strictObject({
      type: z.enum(["user", "system"]).optional(),
      limit: whole(1, 1000).default(100),
    }),

    egressBody: z.strictObject(egressMembers).refine(areReachable, domainWords),
    egressChanges: z.strictObject(egressMembers),

    volumeBody: z.strictObject({ name: volumeName(), quota_bytes: quota.nullish() }),
    volumeChanges: z.strictObject({ name: volumeName().optional(), quota_bytes: quota.optional() }),
    volumeQuery: z.strictObject({ refresh_usage: flag.default(false) }),
    volumesQuery: z.strictObject({ refresh_usage: flag.default(false), limit: whole(1, 1000).default(100) }),
    volumeFilesQuery: z.strictObject({
      prefix: z.string().max(4096).default(""),
      recursive: flag.default(false),
      limit: whole(1, 10_000).default(1000),
    }),
    volumeFileQuery: z.strictObject({ path }),
    volumeUploadForm: z.strictObject({
      file,
      path,
      overwrite: flag.default(false),
    }),

    shareBody: z
      .strictObject({ vm_id: id.nullish(), session_id: id.nullish(), port, is_public: z.boolean().default(false) })
      .refine(({ vm_id: vm, session_id: session }) => (vm == null) !== (session == null), {
        error: "Exactly one of vm_id and session_id should be given",
        path: ["vm_id"],
      }),
    shareChanges: z.strictObject({ is_public: z.boolean().optional(), revoke: z.boolean().optional() }),

    keyBody: z.strictObject({ description: text(128).nullish() }),
    keyChanges: z.strictObject({ description: text(128) }),

    ptyBody: z.strictObject({ cols: size.default(80), rows: size.default(24), shell: text(4096).nullish() }),
    sizeBody: z.strictObject({ cols: size, rows: size }),
  };
}

const domainWords = {
  error: "Domains are reached by http or https: with both forbidden none of them can be",
  path: ["allowed_domains"],
};

/** whether the policy is consistent: it must not list domains while it forbids http and https */
export function areReachable(policy: {
  allow_http?: boolean | undefined;
  allow_https?: boolean | undefined;
  allowed_domains?: string[] | undefined;
}): boolean {
  const forbidden = policy.allow_http !== true && policy.allow_https === false;
  return !forbidden || (policy.allowed_domains ?? []).length === 0;
}

/** most bytes that the kernel accepts as one argument, without the final NUL */
const longestCode = (128 << 10) - 1;

function code() {
  return z
    .string()
    .min(1)
    .refine((value) => Buffer.byteLength(value) <= longestCode, `Input should be at most ${longestCode} bytes`);
}

function volumeName() {
  return text(64).regex(/^[a-zA-Z0-9_-]+$/, "A volume's name is letters, digits, - and _");
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** stops at the allowed depth, since a body may nest as deep as it is long */
function isFlat(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isFlat(member, levels - 1));
}

function isMountPoint(value: string): boolean {
  return value.startsWith("/") && value !== "/" && posix.normalize(value).replace(/\/$/, "") === value;
}
