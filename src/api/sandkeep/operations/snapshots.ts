/** Snapshots: list, get, change, compare and delete them, read their family tree, and make images from them. */

import { z } from "zod";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { TreeNode } from "../../../core/snapshots/snapshots.ts";
import { answers, answersNothing, operation, wholeNumber } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import { fileDifference, printDifference } from "../resources/file-difference.ts";
import { imageResource, printImage } from "../resources/image.ts";
import { printSnapshot, snapshotResource } from "../resources/snapshot.ts";
import { expiration } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Snapshots";
const params = { snapshot: idOf("snapshot") };

const treeNode = z
  .object({
    snapshot: snapshotResource,
    siblings: z.array(snapshotResource).meta({ description: "Others with the same parent, at most 10" }),
    more: z.boolean().meta({ description: "Whether there are more siblings" }),
  })
  .meta({ id: "SnapshotTreeNode" });

export function snapshotOperations({ core }: Dialect) {
  return [
    operation({
      id: "listSnapshots",
      method: "GET",
      path: "/snapshots",
      tag,
      summary: "Lists the snapshots of a project that are not deleted",
      about: "project",
      query: {
        ...pageQuery,
        sandbox: z.string().min(1).max(256).optional().meta({ description: "Name of their sandbox" }),
        name: z.string().min(1).max(128).optional(),
      },
      answer: answers("A page of snapshots", z.object({ snapshots: z.array(snapshotResource), next })),
      async run({ owner, query: { sandbox, name, ...page } }) {
        const filter = { ...(sandbox !== undefined && { sandboxName: sandbox }), ...(name !== undefined && { name }) };
        const found = await core.snapshots.list(owner, { ...pageOf(page), ...filter, there: true });
        return printPage("snapshots", found, printSnapshot);
      },
    }),
    operation({
      id: "getSnapshot",
      method: "GET",
      path: "/snapshots/{snapshot}",
      tag,
      summary: "Returns a snapshot",
      about: "team",
      params,
      answer: answers("The snapshot", snapshotResource),
      run: async ({ caller, params: { snapshot } }) => printSnapshot(await core.snapshots.get(caller, snapshot)),
    }),
    operation({
      id: "changeSnapshot",
      method: "PATCH",
      path: "/snapshots/{snapshot}",
      tag,
      summary: "Renames a snapshot, or changes when it expires",
      description: "A name also protects it where its sandbox keeps only its last few snapshots.",
      about: "team",
      params,
      body: z.strictObject({
        name: z.string().min(1).max(128).optional(),
        expiration: expiration.optional(),
      }),
      answer: answers("The snapshot", snapshotResource),
      run: async ({ caller, params: { snapshot }, body }) =>
        printSnapshot(await core.snapshots.change(caller, snapshot, body)),
    }),
    operation({
      id: "deleteSnapshot",
      method: "DELETE",
      path: "/snapshots/{snapshot}",
      tag,
      summary: "Deletes a snapshot and its files",
      about: "team",
      params,
      answer: answersNothing("It is gone"),
      async run({ caller, params: { snapshot } }) {
        await core.snapshots.delete(caller, snapshot);
        return undefined;
      },
    }),
    operation({
      id: "getSnapshotTree",
      method: "GET",
      path: "/snapshots/{snapshot}/tree",
      tag,
      summary: "Returns the ancestors of a snapshot, or the line of its first descendants",
      about: "project",
      params,
      query: {
        towards: z.enum(["ancestors", "descendants"]).default("ancestors"),
        limit: wholeNumber({ min: 1, max: 100 }).optional(),
      },
      answer: answers(
        "The snapshot and those above or below it, nearest first",
        z.object({
          anchor: treeNode,
          nodes: z.array(treeNode),
          next: z.string().nullable().meta({ description: "The snapshot to ask for next; null if there are no more" }),
        }),
      ),
      async run({ owner, params: { snapshot }, query: { towards, limit = 20 } }) {
        const order = towards === "ancestors" ? "desc" : "asc";
        const tree = await core.snapshots.tree(owner, snapshot, { limit, order });
        return { anchor: printNode(tree.anchor), nodes: tree.nodes.map(printNode), next: tree.next ?? null };
      },
    }),
    operation({
      id: "compareSnapshot",
      method: "GET",
      path: "/snapshots/{snapshot}/diff",
      tag,
      summary: "Lists the files that differ between a snapshot and another one, or a sandbox as it is now",
      description:
        "A page ends after a bounded number of files, so it may be empty although there is a next one. Files with the same type, size, mode, owner and time of modification count as equal.",
      about: "project",
      params,
      query: {
        to: z.string().min(1).max(128).optional().meta({ description: "The snapshot that it is compared with" }),
        sandbox: z.string().min(1).max(256).optional().meta({
          description: "Name of the sandbox that it is compared with, by default its own",
        }),
        limit: wholeNumber({ min: 1, max: 1000 }).optional().meta({ description: "Most changes, by default 200" }),
        cursor: z.string().min(1).max(8192).optional().meta({ description: "`next` of the page before" }),
      },
      answer: answers(
        "What has to change in the files of the snapshot to get those of the other, in the order of paths",
        z.object({
          changes: z.array(fileDifference),
          next,
          truncated: z.boolean().meta({
            description: "Whether directories with more than 20,000 files, or too long paths, were left out",
          }),
        }),
      ),
      async run({ owner, params: { snapshot }, query: { to, sandbox, limit = 200, cursor }, request }) {
        if (to !== undefined && sandbox !== undefined)
          throw new SandkeepError("invalid", "Invalid request: `to` should NOT be given together with `sandbox`.");
        const target = to !== undefined ? { snapshot: to } : sandbox === undefined ? undefined : { sandbox };
        const options = { limit, after: cursor, signal: request.signal };
        const found = await core.snapshots.diff(owner, snapshot, target, options);
        return { changes: found.changes.map(printDifference), next: found.next ?? null, truncated: found.truncated };
      },
    }),
    operation({
      id: "createImageFromSnapshot",
      method: "POST",
      path: "/snapshots/{snapshot}/image",
      tag,
      summary: "Makes an image of the team from a snapshot",
      about: "team",
      params,
      body: z.strictObject({ name: z.string().min(1).max(160) }),
      answer: answers("The image", z.object({ image: imageResource }), 201),
      async run({ caller, params: { snapshot }, body: { name } }) {
        return { image: printImage(await core.builds.fromSnapshot(caller, snapshot, name)) };
      },
    }),
  ];
}

function printNode({ snapshot, siblings, more }: TreeNode): z.input<typeof treeNode> {
  return { snapshot: printSnapshot(snapshot), siblings: siblings.map(printSnapshot), more };
}
