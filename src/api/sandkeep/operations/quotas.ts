/** Quotas: how much of the host a team, or the sandboxes of a key, may use, and how much they use. */

import { z } from "zod";
import { definedOf } from "../../../base/defined.ts";
import type { KeyQuotaUse, QuotaUse } from "../../../core/access/quotas.ts";
import type { Quota } from "../../../core/model/sandbox.ts";
import { answers, operation } from "../frame/operation.ts";
import { idOf } from "../frame/router.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Teams and keys";
const params = { key: idOf("key") };

const newLimits = {
  sandboxes: z.int().min(0).optional().meta({ description: "Sandboxes that run or are paused" }),
  vcpus: z.number().min(0).optional().meta({ description: "Processors of all of them" }),
  memory: z.int().min(0).optional().meta({ description: "MiB of all of them" }),
  createsPerMinute: z
    .int()
    .min(0)
    .optional()
    .meta({ description: "New sandboxes and forks, also those that have ended" }),
  disk: z.int().min(0).optional().meta({ description: "MiB of the files of all of them, and of all snapshots" }),
};
const leftOut = "A limit that is left out does not exist";
const newKeyQuota = z.strictObject(newLimits).meta({ id: "NewKeyQuota", description: leftOut });
const newQuota = z
  .strictObject({
    ...newLimits,
    imageDisk: z.int().min(0).optional().meta({ description: "MiB on the disk of the team's own images" }),
  })
  .meta({ id: "NewQuota", description: leftOut });

const limits = {
  sandboxes: z.int().nullable(),
  vcpus: z.number().nullable(),
  memory: z.int().nullable().meta({ description: "MiB" }),
  createsPerMinute: z.int().nullable(),
  disk: z.int().nullable().meta({ description: "MiB" }),
};
const amounts = {
  sandboxes: z.int(),
  vcpus: z.number(),
  memory: z.number(),
  createsPerMinute: z.int(),
  disk: z.int(),
};
const keyQuotaResource = z
  .object({
    limits: z.object(limits),
    use: z
      .object(amounts)
      .meta({ description: "Of the sandboxes that the key made; creates are those of the last minute" }),
  })
  .meta({ id: "KeyQuota" });
const quotaResource = z
  .object({
    limits: z.object({ ...limits, imageDisk: z.int().nullable().meta({ description: "MiB" }) }),
    use: z.object({ ...amounts, imageDisk: z.int() }).meta({
      description: "Of all sandboxes of the team that run or are paused; creates are those of the last minute",
    }),
  })
  .meta({ id: "Quota" });

export function quotaOperations({ core }: Dialect) {
  return [
    operation({
      id: "getQuota",
      method: "GET",
      path: "/quota",
      tag,
      summary: "Returns the quota of the team, and what the team uses of it",
      about: "team",
      answer: answers("The quota", quotaResource),
      run: async ({ caller }) => printQuota(await core.quotas.get(caller)),
    }),
    operation({
      id: "setQuota",
      method: "PUT",
      path: "/quota",
      tag,
      summary: "Replaces the quota of the team; needs an admin key",
      description: "What runs already goes on. A start beyond the quota is answered with 429.",
      about: "team",
      body: newQuota,
      answer: answers("The quota", quotaResource),
      run: async ({ caller, body }) => printQuota(await core.quotas.set(caller, definedOf(body))),
    }),
    operation({
      id: "getKeyQuota",
      method: "GET",
      path: "/keys/{key}/quota",
      tag,
      summary: "Returns the quota of a key, and what the sandboxes that it made use; every key may ask for its own",
      about: "team",
      params,
      answer: answers("The quota", keyQuotaResource),
      run: async ({ caller, params: { key } }) => printKeyQuota(await core.quotas.getOfKey(caller, key)),
    }),
    operation({
      id: "setKeyQuota",
      method: "PUT",
      path: "/keys/{key}/quota",
      tag,
      summary: "Replaces the quota of a key, which counts besides that of its team",
      description:
        "Needs a key without limits. What runs already goes on. A start beyond the quota is answered with 429.",
      about: "team",
      params,
      body: newKeyQuota,
      answer: answers("The quota", keyQuotaResource),
      run: async ({ caller, params: { key }, body }) =>
        printKeyQuota(await core.quotas.setOfKey(caller, key, definedOf(body))),
    }),
  ];
}

function printQuota({ quota, use }: { quota: Quota; use: QuotaUse }): z.input<typeof quotaResource> {
  return { limits: { ...printLimits(quota), imageDisk: quota.imageDisk ?? null }, use };
}

function printKeyQuota({ quota, use }: { quota: Quota; use: KeyQuotaUse }): z.input<typeof keyQuotaResource> {
  return { limits: printLimits(quota), use };
}

function printLimits({ sandboxes, vcpus, memory, createsPerMinute, disk }: Quota) {
  return {
    sandboxes: sandboxes ?? null,
    vcpus: vcpus ?? null,
    memory: memory ?? null,
    createsPerMinute: createsPerMinute ?? null,
    disk: disk ?? null,
  };
}
