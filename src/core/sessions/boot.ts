/**
 * Boots the machine of a stored, pending session, fetches its source, and moves the session to running. If anything
 * fails, it deletes the machine and moves the session to failed.
 */

import { Retries } from "../../base/concurrency/retries.ts";
import { SingleFlight } from "../../base/concurrency/single-flight.ts";
import type { Context } from "../context.ts";
import { memoryPerVcpu } from "../context.ts";
import { beginTrust } from "../images/trust.ts";
import { UserSetup } from "../images/user-setup.ts";
import { isSandkeepError, messageOf, SandkeepError, tooMany } from "../model/errors.ts";
import type { StartCommand } from "../model/image.ts";
import type { Mount, Sandbox, Session } from "../model/sandbox.ts";
import { networkOf } from "../network/networks.ts";
import type { ImageInfo } from "../ports/images.ts";
import type { Machine, MachineRoot } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { fetchSource, type Source } from "../sandboxes/sources.ts";
import { expiryOf } from "./lifetime.ts";
import { startSession } from "./start-command.ts";
import type { Transitions } from "./transitions.ts";

/** A booted machine, and its image if it booted from one. */
interface BootedMachine {
  machine: Machine;
  image: ImageInfo | undefined;
}

export interface BootOptions {
  root: MachineRoot;
  /** resolves when the session is stored; default: it is stored already */
  recorded?: Promise<void>;
  /**
   * called on failure, before the session moves to failed: if the daemon dies in between, the next one finds the
   * session pending and undoes the rest
   */
  failed?: () => Promise<unknown>;
  source?: Exclude<Source, { kind: "snapshot" }>;
}

export class Boots {
  readonly #context: Context;
  readonly #transitions: Transitions;
  readonly #descriptions: Descriptions;
  readonly #booted: (machine: Machine) => void;
  readonly #retries: Retries;
  readonly #userSetup = new UserSetup();
  /** boots under way, by session */
  readonly #flights = new SingleFlight<Session>();
  /** machines of no session that boot */
  readonly #others = new Set<string>();

  constructor(
    context: Context,
    transitions: Transitions,
    descriptions: Descriptions,
    booted: (machine: Machine) => void,
  ) {
    this.#context = context;
    this.#transitions = transitions;
    this.#descriptions = descriptions;
    this.#retries = new Retries(context.logError);
    this.#booted = booted;
  }

  boot(sandbox: Sandbox, session: Session, options: BootOptions): Promise<Session> {
    return this.#flights.start(session.id, () => this.#boot(sandbox, session, options));
  }

  /** call before the session is stored, so that a refused create leaves no trace */
  requireRoom(): void {
    this.#context.runtime.requireRoom();
    this.#requireFewer();
  }

  /** boots a machine that no session has; it counts like any other, also while it boots */
  async bootOther(id: string, boot: () => Promise<Machine>): Promise<Machine> {
    this.#requireFewer();
    this.#others.add(id);
    try {
      return await boot();
    } finally {
      this.#others.delete(id);
    }
  }

  #requireFewer(): void {
    const { runtime, limits } = this.#context;
    const booting = [...this.#flights.keys(), ...this.#others].filter((id) => !runtime.machine(id)).length;
    if (runtime.machines().length + booting < limits.maxSandboxes) return;
    throw tooMany(limits.maxSandboxes);
  }

  /** resolves when the session's boot has succeeded or failed */
  async settled(sessionId: string): Promise<void> {
    await this.#flights.settled(sessionId);
  }

  async #boot(sandbox: Sandbox, session: Session, options: BootOptions): Promise<Session> {
    const { now, limits } = this.#context;
    const settled = this.#context.settledNow ?? now;
    let machine: Machine | undefined;
    let early: Promise<BootedMachine> | undefined;
    try {
      this.requireRoom();
      // store the record while the machine boots: after a crash, recovery ends a machine without a record
      early = hasDrives(sandbox) ? undefined : this.#make(sandbox, session, options.root);
      early?.catch(() => undefined);
      await options.recorded;
      await this.#attach(sandbox, session);
      const made = await (early ?? this.#make(sandbox, session, options.root));
      machine = made.machine;
      const start = made.image?.config?.start ?? (await this.#startOf(sandbox, options.root));
      if (start) await startSession(this.#context, machine, session, start);
      if (options.source) await fetchSource(this.#context, machine, session, options.source);
      const startedAt = await settled();
      const expiresAt = expiryOf({ ...session, startedAt }, startedAt, limits.maxTimeout);
      const changes = {
        startedAt,
        updatedAt: startedAt,
        ...(expiresAt !== undefined && { expiresAt }),
        ...(session.lifetime === "idle" && { lastActivityAt: startedAt }),
      };
      const described = this.#descriptions.machine(sandbox, { ...session, ...changes, state: "running" });
      const run = () => this.#transitions.apply(session, "booted", changes);
      const running = await run().catch((error) => {
        // The outcome is unknown. A retry does no harm: only this boot moves the session to running.
        if (isSandkeepError(error, "unavailable")) return run();
        throw error;
      });
      await described;
      if (!running) throw new SandkeepError("conflict", `Cannot start session "${session.id}": it was ended meanwhile`);
      this.#booted(machine);
      return running;
    } catch (error) {
      const made = machine ?? (await early?.catch(() => undefined))?.machine;
      // What follows the boot of a machine may fail, too.
      await this.#undo(session, made ?? this.#context.runtime.machine(session.id), options.failed, error);
      throw error;
    }
  }

  async #make(sandbox: Sandbox, session: Session, root: MachineRoot): Promise<BootedMachine> {
    const { runtime, hostRoots, limits } = this.#context;
    const network = networkOf(this.#context, session);
    const image = "image" in root ? await runtime.images.get(root.image) : undefined;
    const setup = image && !hasDrives(sandbox) ? this.#userSetup.known(image, session) : undefined;
    const machine = await runtime.boot({
      id: session.id,
      root,
      limits: { vcpus: session.vcpus, memory: session.memory * 2 ** 20, disk: limits.disk },
      network,
      line: sandbox.id,
      mounts: Object.entries(sandbox.mounts).map(([path, { driveId, mode }]) => ({ path, drive: driveId, mode })),
      ...(setup && { setup }),
    });
    // The image may already contain the host's current certificates.
    const rooted = !hostRoots || (image !== undefined && image.roots === hostRoots.pem);
    beginTrust(machine, network, this.#context, { fresh: "image" in root, rooted });
    if (image && !setup) await this.#userSetup.apply(machine, image, session, { hasDrives: hasDrives(sandbox) });
    return { machine, image };
  }

  /** of the image that its snapshot began with */
  async #startOf({ base }: Sandbox, root: MachineRoot): Promise<StartCommand | undefined> {
    if ("image" in root) return undefined;
    return (await this.#context.runtime.images.get(base.image))?.config?.start;
  }

  /** only one session at a time may write to a drive */
  async #attach(sandbox: Sandbox, session: Session): Promise<void> {
    const { store, now } = this.#context;
    for (const mount of Object.values(sandbox.mounts)) {
      if (isWritable(mount) && (await store.attachDrive(mount.driveId, session.id, sandbox.name, now()))) continue;
      if (!(await store.getDrive(mount.driveId))) {
        throw new SandkeepError("invalid", `Cannot mount drive "${mount.drive}": it was deleted`);
      }
      if (!isWritable(mount)) continue;
      const message = `Cannot mount drive "${mount.drive}": another session writes to it`;
      throw new SandkeepError("conflict", message, { about: { kind: "drive", name: mount.drive } });
    }
  }

  async #undo(
    session: Session,
    machine: Machine | undefined,
    failed: BootOptions["failed"],
    error: unknown,
  ): Promise<void> {
    const { store, now } = this.#context;
    const about = { sandbox: session.sandboxName, session: session.id };
    const logError = (reason: unknown) => this.#context.logError(reason, about);
    await machine?.stop().catch(logError);
    await this.#descriptions.forgetMachine(session.id).catch(logError);
    await store.detachDrives(session.id, now()).catch(logError);
    const at = now();
    const fail = async () => {
      await failed?.();
      await this.#transitions.apply(session, "boot-failed", {
        updatedAt: at,
        stoppedAt: at,
        endCause: "crash",
        endReason: messageOf(error),
      });
    };
    // if the store is unavailable now, the session would stay pending for ever
    await fail().catch(() => this.#retries.again(session.id, fail));
  }
}

/** the size of a sandbox's machine; memory in MiB, by default by its number of processors */
export function sizeOf(vcpus: number, memory = vcpus * memoryPerVcpu): { vcpus: number; memory: number } {
  return { vcpus, memory };
}

function hasDrives(sandbox: Sandbox): boolean {
  return Object.keys(sandbox.mounts).length > 0;
}

function isWritable(mount: Mount): boolean {
  return mount.mode === "read-write";
}
