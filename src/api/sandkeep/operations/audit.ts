/** The audit of a team, or of all teams for an admin key. */

import { z } from "zod";
import { definedOf } from "../../../base/defined.ts";
import type { AuditEntry } from "../../../core/model/audit.ts";
import type { ErrorCode } from "../../../core/model/errors.ts";
import { statuses } from "../../kit/refusal.ts";
import { answers, flag, operation, wholeNumber } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const entryResource = z
  .object({
    id: z.string(),
    at: time.meta({ description: "When the call ended" }),
    teamId: z.string(),
    projectId: z.string().nullable(),
    keyId: z
      .string()
      .nullable()
      .meta({ description: "The key of the caller, which may be an admin key of another team" }),
    wire: z.string().nullable().meta({ description: "The API that the caller used" }),
    address: z.string().nullable().meta({ description: "The client's IP address" }),
    action: z.string().meta({ description: "What was done, such as `sandbox.create`" }),
    target: z.string().nullable().meta({ description: "Name or id of the thing, or the path of a file" }),
    sessionId: z.string().nullable(),
    outcome: z.string().meta({ description: "`done`, or why the call was refused or failed, such as `forbidden`" }),
  })
  .meta({ id: "AuditEntry" });

// The table has every code of an error.
const outcomes = ["done", "failed", ...(Object.keys(statuses) as ErrorCode[])] as const;
const filters = {
  action: z
    .string()
    .regex(/^[a-z-]+(\.[a-z-]+)?$/, "an action is written as `sandbox.delete`, or as `sandbox` for all of them.")
    .max(64)
    .optional()
    .meta({ description: "Only this action, such as `sandbox.delete`, or with `sandbox` all that begin so" }),
  key: idOf("key").optional().meta({ description: "Only calls of the key with this id" }),
  target: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .meta({ description: "Only calls about the thing with this name or id" }),
  outcome: z
    .enum(outcomes)
    .optional()
    .meta({ description: "Only calls that ended so; `failed` means any other end than `done`" }),
  from: wholeNumber().optional().meta({ description: "Only from this time on, in ms since 1970" }),
  to: wholeNumber().optional().meta({ description: "Only up to this time" }),
};
const allTeams = flag().default(false).meta({ description: "Whether to list all teams; needs an admin key" });

export function auditOperations({ core }: Dialect) {
  return [
    operation({
      id: "listAudit",
      method: "GET",
      path: "/audit",
      tag: "Teams and keys",
      summary: "Lists who changed what",
      description:
        "Has an entry for each call that changes something, on every API, also for those that were refused or failed. " +
        "Input of commands and the size of terminals have none. Needs a key for the whole team; it may be limited to reading.",
      about: "team",
      query: { ...pageQuery, ...filters, allTeams },
      answer: answers("A page of the audit", z.object({ entries: z.array(entryResource), next })),
      async run({ caller, query: { allTeams: ofAll, key: keyId, action, target, outcome, from, to, ...query } }) {
        const filter = definedOf({ action, keyId, target, outcome, from, to });
        const page = await core.audit.page(caller, { ...pageOf(query), ...filter, allTeams: ofAll });
        return printPage("entries", page, printEntry);
      },
    }),
  ];
}

function printEntry(entry: AuditEntry): z.input<typeof entryResource> {
  const { projectId = null, keyId = null, wire = null, address = null, target = null, sessionId = null } = entry;
  return { ...entry, projectId, keyId, wire, address, target, sessionId };
}
