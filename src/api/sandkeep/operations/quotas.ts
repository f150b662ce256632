/** Quotas: how much of the host a team may use, and how much it uses. */

import { z } from "zod";
import type { Quota } from "../../../core/model/sandbox.ts";
import { answers, operation } from "../frame/operation.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Teams and keys";

const newQuota = z
  .strictObject({
    sandboxes: z.int().min(0).optional().meta({ description: "Sandboxes that run or are paused" }),
    vcpus: z.number().min(0).optional().meta({ description: "Processors of all of them" }),
    memory: z.int().min(0).optional().meta({ description: "MiB of all of them" }),
    createsPerMinute: z
      .int()
      .min(0)
      .optional()
      .meta({ description: "New sandboxes and forks, also those that have ended" }),
    imageDisk: z.int().min(0).optional().meta({ description: "MiB on the disk of the team's own images" }),
  })
  .meta({ id: "NewQuota", description: "A limit that is left out does not exist" });

const amounts = z.object({
  sandboxes: z.int(),
  vcpus: z.number(),
  memory: z.number(),
  createsPerMinute: z.int(),
  imageDisk: z.int(),
});
const quotaResource = z
  .object({
    limits: z.object({
      sandboxes: z.int().nullable(),
      vcpus: z.number().nullable(),
      memory: z.int().nullable().meta({ description: "MiB" }),
      createsPerMinute: z.int().nullable(),
      imageDisk: z.int().nullable().meta({ description: "MiB" }),
    }),
    use: amounts.meta({
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
      async run({ caller, body: { sandboxes, vcpus, memory, createsPerMinute, imageDisk } }) {
        const quota: Quota = {
          ...(sandboxes !== undefined && { sandboxes }),
          ...(vcpus !== undefined && { vcpus }),
          ...(memory !== undefined && { memory }),
          ...(createsPerMinute !== undefined && { createsPerMinute }),
          ...(imageDisk !== undefined && { imageDisk }),
        };
        return printQuota(await core.quotas.set(caller, quota));
      },
    }),
  ];
}

function printQuota({ quota, use }: { quota: Quota; use: Required<Quota> }): z.input<typeof quotaResource> {
  const { sandboxes = null, vcpus = null, memory = null, createsPerMinute = null, imageDisk = null } = quota;
  return { limits: { sandboxes, vcpus, memory, createsPerMinute, imageDisk }, use };
}
