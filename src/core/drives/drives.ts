/** Drives: durable volumes of a project, mounted into sessions. */

import { FairSemaphore, QueueFull } from "../../base/concurrency/fair-semaphore.ts";
import type { Context } from "../context.ts";
import { isSandkeepError, notFound, SandkeepError } from "../model/errors.ts";
import type { Drive, Owner } from "../model/sandbox.ts";
import type { Files, Machine, MachineSpec } from "../ports/runtime.ts";
import type { DriveQuery, Page } from "../ports/store.ts";
import type { Descriptions } from "../recovery/descriptions.ts";

/** size of a drive in bytes, if the caller gives none */
const usualSize = 2 ** 40;

/** mount path of a drive in the machine that serves its files */
const fileRoot = "/drive";
const fileMemory = 512 * 2 ** 20;
/** drives whose files one team has at hand at a time; who opens another waits until one is closed */
const mostOpen = 4;
/** requests of one team that wait to open a drive */
const mostWaiting = 256;

/** A drive whose files can be accessed, below `root`. */
export interface OpenDrive {
  files: Files;
  root: string;
  close(): Promise<void>;
}

export interface OpenDriveOptions {
  /** whether the caller may change the files, which permissions.ts checks; close() then waits for the disk */
  write?: boolean;
  /** gives up waiting */
  signal?: AbortSignal;
}

/** boots a machine that counts among those that may run, or refuses */
type BootCounted = (id: string, boot: () => Promise<Machine>) => Promise<Machine>;

export class Drives {
  readonly #context: Context;
  readonly #descriptions: Descriptions;
  /** number of open accesses to each drive's files */
  readonly #open = new Map<string, number>();

  readonly #boot: BootCounted;
  readonly #turns = new FairSemaphore({ ofTeam: mostOpen, waiting: mostWaiting });

  constructor(context: Context, descriptions: Descriptions, boot: BootCounted) {
    this.#context = context;
    this.#boot = boot;
    this.#descriptions = descriptions;
  }

  async get(owner: Owner, name: string): Promise<Drive> {
    const drive = await this.#context.store.findDrive(owner.projectId, name);
    if (!drive) throw notFound("drive", name);
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
      teamId: owner.teamId,
      projectId: owner.projectId,
      id: ids.drive(),
      name,
      region: options.region ?? limits.defaultRegion,
      maxSizeBytes: options.maxSizeBytes ?? Math.min(usualSize, limits.maxDriveSize),
      createdAt: at,
      updatedAt: at,
    };
    try {
      await this.#keep(drive, () => runtime.drives.create(drive.id, { maxSize: drive.maxSizeBytes }));
      return { drive, created: true };
    } catch (error) {
      if (!isSandkeepError(error, "exists")) throw error;
      return { drive: await this.get(owner, name), created: false };
    }
  }

  /** creates a drive with the current contents, region and size of this one */
  async fork(owner: Owner, name: string, forkName: string): Promise<Drive> {
    const { store, runtime, ids, now } = this.#context;
    const { sessionId: _, sandboxName: __, ...parent } = await this.get(owner, name);
    if (await store.findDrive(owner.projectId, forkName)) throw taken(forkName);
    const at = now();
    const rootId = parent.rootId ?? parent.id;
    const fork: Drive = {
      ...parent,
      id: ids.drive(),
      name: forkName,
      parentId: parent.id,
      rootId,
      createdAt: at,
      updatedAt: at,
    };
    // counted as open, so that it is not deleted while it is copied
    this.#opened(parent.id, 1);
    try {
      await this.#keep(fork, () => runtime.drives.copy(parent.id, fork.id, { maxSize: fork.maxSizeBytes }));
      return fork;
    } catch (error) {
      throw isSandkeepError(error, "exists") ? taken(forkName) : error;
    } finally {
      this.#opened(parent.id, -1);
    }
  }

  /** by its name, or by its id if no drive has that name */
  async find(owner: Owner, nameOrId: string): Promise<Drive> {
    const named = await this.#context.store.findDrive(owner.projectId, nameOrId);
    return named ?? this.byId(owner, nameOrId);
  }

  /** by its id */
  async byId(owner: Owner, id: string): Promise<Drive> {
    const drive = await this.#context.store.getDrive(id);
    if (drive?.projectId !== owner.projectId) throw new SandkeepError("not-found", `Drive '${id}' not found.`);
    return drive;
  }

  async resize(owner: Owner, id: string, maxSizeBytes: number): Promise<Drive> {
    const { store, runtime, now } = this.#context;
    const drive = await this.byId(owner, id);
    await runtime.drives.resize(drive.id, { maxSize: maxSizeBytes });
    const resized = await store.updateDrive(drive.id, { maxSizeBytes, updatedAt: now() });
    if (!resized) throw new SandkeepError("not-found", `Drive '${id}' not found.`);
    await this.#descriptions.drive(resized);
    this.#publish("drive.changed", resized);
    return resized;
  }

  /**
   * gives access to its files through a machine of its own without a network; the caller must close it. A session that
   * writes to the drive at the same time sees what is written here, and the other way round
   */
  async open(owner: Owner, id: string, { write = false, signal }: OpenDriveOptions = {}): Promise<OpenDrive> {
    const { runtime, ids, logError } = this.#context;
    const drive = await this.byId(owner, id);
    const spec: MachineSpec = {
      id: ids.session().id,
      root: { image: this.#context.defaultImage },
      limits: { vcpus: 1, memory: fileMemory },
      network: "deny-all",
      sudo: false,
      mounts: [{ path: fileRoot, drive: drive.id, mode: "read-write" }],
    };
    // counted as open first, so that it is not deleted meanwhile
    this.#opened(drive.id, 1);
    const leave = await this.#turn(owner, drive.name, signal).catch((error) => {
      this.#opened(drive.id, -1);
      throw error;
    });
    const close = async () => {
      await runtime.machine(spec.id)?.stop().catch(logError);
      await runtime.forget(spec.id).catch(logError);
      try {
        if (write) await runtime.drives.sync?.(drive.id);
      } finally {
        this.#opened(drive.id, -1);
        leave();
      }
    };
    try {
      const machine = await this.#boot(spec.id, () => runtime.boot(spec));
      return { files: machine.files("root"), root: fileRoot, close };
    } catch (error) {
      await close();
      throw error;
    }
  }

  async list(owner: Owner, query: Omit<DriveQuery, "projectId">): Promise<Page<Drive>> {
    return this.#context.store.listDrives({ ...query, projectId: owner.projectId });
  }

  async delete(owner: Owner, name: string): Promise<Drive> {
    const { store, runtime } = this.#context;
    const drive = await this.get(owner, name);
    if (this.#open.has(drive.id)) throw attached(name, "it is being read");
    if (!(await store.deleteDrive(drive.id))) {
      throw attached(name, "a session writes to it");
    }
    this.#descriptions.forget("drive", drive.id);
    this.#publish("drive.deleted", drive);
    await runtime.drives.delete(drive.id);
    return drive;
  }

  /** waits until the team may open another drive; the result ends that */
  async #turn({ teamId }: Owner, name: string, signal: AbortSignal | undefined): Promise<() => void> {
    try {
      return await this.#turns.enter(teamId, signal);
    } catch (cause) {
      const [code, why] =
        cause instanceof QueueFull
          ? (["limit", `${mostWaiting} other requests of this team wait already`] as const)
          : (["gone", "the client has gone"] as const);
      throw new SandkeepError(code, `Cannot open drive "${name}": ${why}`, { cause });
    }
  }

  /** makes its volume and puts it on record, or neither */
  async #keep(drive: Drive, make: () => Promise<void>): Promise<void> {
    const { store, runtime } = this.#context;
    try {
      await make();
      await store.insertDrive(drive);
      await this.#descriptions.drive(drive);
      this.#publish("drive.created", drive);
    } catch (error) {
      await runtime.drives.delete(drive.id);
      throw error;
    }
  }

  #publish(type: "drive.created" | "drive.changed" | "drive.deleted", { id, name, projectId }: Drive): void {
    this.#context.events.publish(projectId, { type, drive: name, driveId: id });
  }

  #opened(id: string, change: 1 | -1): void {
    const count = (this.#open.get(id) ?? 0) + change;
    if (count > 0) this.#open.set(id, count);
    else this.#open.delete(id);
  }
}

function taken(name: string): SandkeepError {
  return new SandkeepError("exists", `Cannot fork the drive: the project has another one called "${name}"`);
}

function attached(name: string, why: string): SandkeepError {
  return new SandkeepError("conflict", `Cannot delete drive "${name}": ${why}`, { about: { kind: "drive", name } });
}
