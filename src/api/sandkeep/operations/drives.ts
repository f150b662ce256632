/** Drives: durable volumes of a project. */

import { z } from "zod";
import { answers, answersNothing, operation } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { driveResource, printDrive } from "../resources/drive.ts";
import { newName } from "../resources/sandbox.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Drives";
const params = { drive: z.string().min(1).max(128).meta({ description: "Name of the drive in its project" }) };
const leastSize = 1 << 20;

export function driveOperations({ core, limits }: Dialect) {
  const maxSize = z.int().min(leastSize).max(limits.driveSize).meta({ description: "Bytes" });
  return [
    operation({
      id: "listDrives",
      method: "GET",
      path: "/drives",
      tag,
      summary: "Lists the drives of a project",
      about: "project",
      query: {
        ...pageQuery,
        namePrefix: z.string().min(1).max(128).optional(),
        sortBy: z.enum(["createdAt", "updatedAt", "name"]).default("createdAt"),
      },
      answer: answers("A page of drives", z.object({ drives: z.array(driveResource), next })),
      async run({ owner, query: { namePrefix, sortBy, ...page } }) {
        const filter = { sortBy, ...(namePrefix !== undefined && { namePrefix }) };
        return printPage("drives", await core.drives.list(owner, { ...pageOf(page), ...filter }), printDrive);
      },
    }),
    operation({
      id: "getDrive",
      method: "GET",
      path: "/drives/{drive}",
      tag,
      summary: "Returns a drive",
      about: "project",
      params,
      answer: answers("The drive", driveResource),
      run: async ({ owner, params: { drive } }) => printDrive(await core.drives.get(owner, drive)),
    }),
    operation({
      id: "putDrive",
      method: "PUT",
      path: "/drives/{drive}",
      tag,
      summary: "Creates a drive, or returns the one of this name",
      about: "project",
      params: { drive: newName() },
      namesNew: true,
      body: z.strictObject({ maxSize: maxSize.optional() }),
      answer: answers("The drive", driveResource),
      async run({ owner, params: { drive }, body: { maxSize: maxSizeBytes } }) {
        return printDrive((await core.drives.getOrCreate(owner, drive, { maxSizeBytes })).drive);
      },
    }),
    operation({
      id: "resizeDrive",
      method: "PATCH",
      path: "/drives/{drive}",
      tag,
      summary: "Changes the size limit of a drive",
      about: "project",
      params,
      body: z.strictObject({ maxSize }),
      answer: answers("The drive", driveResource),
      async run({ owner, params: { drive }, body }) {
        const { id } = await core.drives.get(owner, drive);
        return printDrive(await core.drives.resize(owner, id, body.maxSize));
      },
    }),
    operation({
      id: "forkDrive",
      method: "POST",
      path: "/drives/{drive}/fork",
      tag,
      summary: "Creates a drive with the current files of another",
      about: "project",
      params,
      body: z.strictObject({ name: newName() }),
      answer: answers("The new drive", driveResource, 201),
      run: async ({ owner, params: { drive }, body: { name } }) =>
        printDrive(await core.drives.fork(owner, drive, name)),
    }),
    operation({
      id: "deleteDrive",
      method: "DELETE",
      path: "/drives/{drive}",
      tag,
      summary: "Deletes a drive that no session has mounted",
      about: "project",
      params,
      answer: answersNothing("It is gone"),
      async run({ owner, params: { drive } }) {
        await core.drives.delete(owner, drive);
        return undefined;
      },
    }),
  ];
}
