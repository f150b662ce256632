/** Keys of a team: create them with limits, list them with their last use, rename and delete them. */

import { z } from "zod";
import { policyOfText, textOfPolicy } from "../../../core/network/policy-text.ts";
import type { ApiKey } from "../../../core/ports/store.ts";
import { answers, answersNothing, operation } from "../frame/operation.ts";
import { next } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { printShortList, shortListQuery } from "../frame/short-list.ts";
import { laterTime, time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Teams and keys";
const params = { key: idOf("key") };
const name = z.string().min(1).max(128);

const keyResource = z
  .object({
    id: z.string(),
    name: z.string(),
    hint: z.string().meta({ description: "The last characters of its secret" }),
    projectId: z.string().nullable().meta({ description: "The only project that it is for" }),
    readOnly: z.boolean(),
    policyCeiling: z.string().nullable().meta({ description: "The widest network policy that it may set or use" }),
    admin: z.boolean().meta({ description: "Whether it may act for every team" }),
    createdAt: time,
    expiresAt: time.nullable(),
    lastUsedAt: time.nullable().meta({ description: "Accurate to about a minute" }),
  })
  .meta({ id: "Key" });

const newKey = z
  .strictObject({
    name,
    project: z.string().min(1).max(128).optional(),
    readOnly: z.boolean().optional(),
    policyCeiling: z.string().min(1).max(16_384).optional(),
    expiresAt: laterTime.optional(),
    admin: z.boolean().optional(),
  })
  .meta({ id: "NewKey" });

export function keyOperations({ core }: Dialect) {
  return [
    operation({
      id: "listKeys",
      method: "GET",
      path: "/keys",
      tag,
      summary: "Lists the keys of the team",
      about: "team",
      query: shortListQuery,
      answer: answers("A page of keys, oldest first", z.object({ keys: z.array(keyResource), next })),
      run: async ({ caller, query }) => printShortList("keys", await core.access.keys(caller), query, printKey),
    }),
    operation({
      id: "createKey",
      method: "POST",
      path: "/keys",
      tag,
      summary: "Creates a key, whose secret is shown only once",
      about: "team",
      body: newKey,
      answer: answers("The key and its secret", z.object({ key: keyResource, secret: z.string() }), 201),
      async run({ caller, body: { name: called, policyCeiling, ...limits } }) {
        const ceiling = policyCeiling === undefined ? undefined : policyOfText(policyCeiling);
        const made = await core.access.createKey(caller, called, { ...limits, policyCeiling: ceiling });
        return { key: printKey(made.key), secret: made.secret };
      },
    }),
    operation({
      id: "renameKey",
      method: "PATCH",
      path: "/keys/{key}",
      tag,
      summary: "Changes the name of a key",
      about: "team",
      params,
      body: z.strictObject({ name }),
      answer: answers("The key", keyResource),
      run: async ({ caller, params: { key }, body }) => printKey(await core.access.renameKey(caller, key, body.name)),
    }),
    operation({
      id: "deleteKey",
      method: "DELETE",
      path: "/keys/{key}",
      tag,
      summary: "Deletes a key, which ends the streams and terminals that it opened",
      about: "team",
      params,
      answer: answersNothing("It is gone"),
      async run({ caller, params: { key } }) {
        await core.access.deleteKey(caller, key);
        return undefined;
      },
    }),
  ];
}

function printKey(key: Omit<ApiKey, "hash">): z.input<typeof keyResource> {
  return {
    id: key.id,
    name: key.name,
    hint: key.hint,
    projectId: key.projectId ?? null,
    readOnly: key.readOnly ?? false,
    policyCeiling: key.policyCeiling ? textOfPolicy(key.policyCeiling) : null,
    admin: key.admin ?? false,
    createdAt: key.createdAt,
    expiresAt: key.expiresAt ?? null,
    lastUsedAt: key.lastUsedAt ?? null,
  };
}
