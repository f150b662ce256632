/**
 * Boots the machine of a session that is on record as pending, fetches its source, and says that it runs. When
 * anything fails nothing of the machine is left and the session is on record as failed.
 */

import { Retries } from "../../base/retries.ts";
import { SingleFlight } from "../../base/single-flight.ts";
import { userIds } from "../commands/user-ids.ts";
import type { Context } from "../context.ts";
import { memoryPerVcpu } from "../context.ts";
import { ShownNames } from "../images/shown-name.ts";
import { beginTrust } from "../images/trust.ts";
import { isSandkeepError, messageOf, SandkeepError, tooMany } from "../model/errors.ts";
import type { Mount, Sandbox, Session } from "../model/sandbox.ts";
import { networkOf } from "../network/networks.ts";
import type { ImageInfo, Machine, MachineRoot } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { fetchSource, type Source } from "../sandboxes/sources.ts";
import { expiryOf } from "./lifetime.ts";
import type { Transitions } from "./transitions.ts";

/** A machine that was booted, and the image that it was booted from, if it was one. */
interface BootedMachine {
  machine: Machine;
  image: ImageInfo | undefined;
}

export interface BootOptions {
  root: MachineRoot;
  /** resolves when the session is on record; default, it is */
  recorded?: Promise<void>;
  /**
   * called when it fails, before the session is on record as failed: a daemon that dies in between finds it pending, and
   * undoes the rest
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
  readonly #names = new ShownNames();
  /** boots under way, by session */
  readonly #flights = new SingleFlight<Session>();

  constructor(
    context: Context,
    transitions: Transitions,
    descriptions: Descriptions,
    booted: (machine: Machine) => void,
  ) {
    this.#context = context;
    this.#transitions = transitions;
    this.#descriptions = descriptions;
    this.#retries = new Retries(context.trouble);
    this.#booted = booted;
  }

  boot(sandbox: Sandbox, session: Session, options: BootOptions): Promise<Session> {
    return this.#flights.start(session.id, () => this.#boot(sandbox, session, options));
  }

  /** asked before a session is on record: one that cannot be made leaves no trace */
  requireRoom(): void {
    const { runtime, limits } = this.#context;
    runtime.requireRoom();
    const booting = this.#flights.keys().filter((id) => !runtime.machine(id)).length;
    if (runtime.machines().length + booting < limits.maxSandboxes) return;
    throw tooMany(limits.maxSandboxes);
  }

  /** resolves when the session's boot is over, however it went */
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
      // the disk writes the record while the machine is made: one that nobody has on record is ended by the recovery
      early = hasDrives(sandbox) ? undefined : this.#make(sandbox, session, options.root);
      early?.catch(() => undefined);
      await options.recorded;
      await this.#attach(sandbox, session);
      const made = await (early ?? this.#make(sandbox, session, options.root));
      machine = made.machine;
      if ("image" in options.root && lacksDirectory(made.image, session)) await makeDirectory(machine, session);
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
        // It is unknown whether it happened. To say so again does no harm: only this boot makes the session run.
        if (isSandkeepError(error, "unavailable")) return run();
        throw error;
      });
      await described;
      if (!running) throw new SandkeepError("conflict", `Cannot start session "${session.id}": it was ended meanwhile`);
      this.#booted(machine);
      return running;
    } catch (error) {
      const made = machine ?? (await early?.catch(() => undefined))?.machine;
      await this.#undo(session, made, options.failed, error);
      throw error;
    }
  }

  async #make(sandbox: Sandbox, session: Session, root: MachineRoot): Promise<BootedMachine> {
    const { runtime, hostRoots, limits } = this.#context;
    const network = networkOf(this.#context, session);
    const machine = await runtime.boot({
      id: session.id,
      root,
      limits: { vcpus: session.vcpus, memory: session.memory * 2 ** 20, disk: limits.disk },
      network,
      line: sandbox.id,
      mounts: Object.entries(sandbox.mounts).map(([path, { driveId, mode }]) => ({ path, drive: driveId, mode })),
    });
    const image = "image" in root ? await runtime.images.get(root.image) : undefined;
    // An image may have been made with the certificates that the host believes now.
    const rooted = !hostRoots || (image !== undefined && image.roots === hostRoots.pem);
    beginTrust(machine, network, this.#context, { fresh: "image" in root, rooted });
    if (image) await this.#showUser(machine, session, image);
    return { machine, image };
  }

  /** makes programs show the name of the session's user, where the image has another one for the same number */
  async #showUser(machine: Machine, { user }: Session, image: ImageInfo): Promise<void> {
    if (user !== image.user && user !== "root") await this.#names.show(machine, image, user);
  }

  /** a drive is written by one session at a time */
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
    const trouble = (reason: unknown) => this.#context.trouble(reason, about);
    await machine?.stop().catch(trouble);
    await this.#descriptions.forgetMachine(session.id).catch(trouble);
    await store.detachDrives(session.id, now()).catch(trouble);
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
    // a store that is away now would leave it pending for ever
    await fail().catch(() => this.#retries.again(session.id, fail));
  }
}

/** what a machine of this sandbox is given; memory in MiB, by default what comes with its processors */
export function sizeOf(vcpus: number, memory = vcpus * memoryPerVcpu): { vcpus: number; memory: number } {
  return { vcpus, memory };
}

/** an image has the directory that it says commands start in; another one that was asked for it may lack */
function lacksDirectory(image: ImageInfo | undefined, { cwd }: Session): boolean {
  // What stands above a directory that is there is there, too.
  return !`${image?.cwd || ""}/`.startsWith(cwd === "/" ? cwd : `${cwd}/`);
}

/** where commands start, for its user to write in */
async function makeDirectory(machine: Machine, { cwd, user }: Session): Promise<void> {
  const { uid, gid } = await userIds(machine, user);
  const files = machine.files();
  await files.mkdir(cwd, { recursive: true });
  await files.chown(cwd, uid, gid);
}

function hasDrives(sandbox: Sandbox): boolean {
  return Object.keys(sandbox.mounts).length > 0;
}

function isWritable(mount: Mount): boolean {
  return mount.mode === "read-write";
}
