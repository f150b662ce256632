/** Drives: durable volumes of a project, mounted into sessions. */

import type { Context } from "./context.ts";
import { isSandkeepError, SandkeepError } from "./errors.ts";
import type { Drive, Owner } from "./sandbox.ts";
import type { DriveQuery, Page } from "./store.ts";

/** bytes of a drive whose caller does not say */
const usualSize = 2 ** 40;

export class Drives {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  async get(owner: Owner, name: string): Promise<Drive> {
    const drive = await this.#context.store.findDrive(owner.projectId, name);
    if (!drive) throw new SandkeepError("not-found", `Drive '${name}' not found for this project.`);
    return drive;
  }

  async getOrCreate(
    owner: Owner,
    name: string,
    options: { maxSizeBytes?: number | undefined; region?: string | undefined } = {},
  ): Promise<{ drive: Drive; created: boolean }> {
    const { store, runtime, ids, now, limits } = this.#context;
    const there = await store.findDrive(owner.projectId, name);
    if (there) return { drive: there, created: false };
    const at = now();
    const drive: Drive = {
      ...owner,
      id: ids.drive(),
      name,
      region: options.region ?? limits.defaultRegion,
      maxSizeBytes: options.maxSizeBytes ?? Math.min(usualSize, limits.maxDriveSize),
      createdAt: at,
      updatedAt: at,
    };
    await runtime.drives.create(drive.id, { maxSize: drive.maxSizeBytes });
    try {
      await store.insertDrive(drive);
      return { drive, created: true };
    } catch (error) {
      await runtime.drives.delete(drive.id);
      if (!isSandkeepError(error, "exists")) throw error;
      return { drive: await this.get(owner, name), created: false };
    }
  }

  async list(owner: Owner, query: Omit<DriveQuery, "projectId">): Promise<Page<Drive>> {
    return this.#context.store.listDrives({ ...query, projectId: owner.projectId });
  }

  async delete(owner: Owner, name: string): Promise<Drive> {
    const { store, runtime } = this.#context;
    const drive = await this.get(owner, name);
    if (!(await store.deleteDrive(drive.id))) {
      throw new SandkeepError("attached", `Cannot delete drive "${name}": a session writes to it`);
    }
    await runtime.drives.delete(drive.id);
    return drive;
  }
}
