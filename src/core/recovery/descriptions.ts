/** Writes descriptions of machines, snapshots and drives beside their files, in case the database is lost. */

import type { Context } from "../context.ts";
import type { Drive, Owner, Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import type { DescribedKind, Description } from "../ports/recovery-files.ts";

const mostProjects = 1000;

export class Descriptions {
  readonly #context: Context;
  /** teams and projects by project id: they never change */
  readonly #owners = new Map<string, Pick<Description, "team" | "project">>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** describes a session's machine, which has the session's id */
  machine(sandbox: Sandbox, session: Session): Promise<void> {
    return this.#write("machine", session.id, session, { sandbox, session });
  }

  snapshot(sandbox: Sandbox, session: Session, snapshot: Snapshot): Promise<void> {
    return this.#write("snapshot", snapshot.runtimeId, snapshot, { sandbox, session, snapshot });
  }

  drive(drive: Drive): Promise<void> {
    return this.#write("drive", drive.id, drive, { drive });
  }

  has(kind: DescribedKind, id: string): boolean {
    return this.#context.files.description(kind, id) !== undefined;
  }

  /** deletes the files of an ended machine and its description */
  async forgetMachine(id: string): Promise<void> {
    await this.#context.runtime.forget(id);
    this.forget("machine", id);
  }

  /** call when the owner deletes the item */
  forget(kind: DescribedKind, id: string): void {
    try {
      this.#context.files.forget(kind, id);
    } catch (error) {
      this.#context.logError(error);
    }
  }

  /** the database is authoritative: a failure to write a description only goes to `logError` */
  async #write(kind: DescribedKind, id: string, owner: Owner, rows: Omit<Description, "team" | "project">) {
    try {
      const owners = await this.#ownersOf(owner);
      if (owners) this.#context.files.describe(kind, id, { ...owners, ...rows });
    } catch (error) {
      this.#context.logError(error);
    }
  }

  async #ownersOf({ teamId, projectId }: Owner): Promise<Pick<Description, "team" | "project"> | undefined> {
    const known = this.#owners.get(projectId);
    if (known) return known;
    const { store } = this.#context;
    const [team, project] = [await store.findTeam(teamId), await store.findProject(teamId, projectId)];
    if (!team || !project) return undefined;
    if (this.#owners.size >= mostProjects) this.#owners.clear();
    this.#owners.set(projectId, { team, project });
    return { team, project };
  }
}
