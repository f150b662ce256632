/**
 * Replaces processes of ours that are of another build than this daemon (other-builds.ts): the egress process on
 * request, because that closes the connections of all sandboxes; the launcher by itself, once no sandbox runs on it.
 */

import { SandkeepError } from "../../../core/model/errors.ts";
import type { Builds as BuildsPort, OtherBuilds as OtherParts, ReplacedParts } from "../../../core/ports/runtime.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import type { Pool } from "../machines/pool.ts";
import type { Warn } from "./launcher-log.ts";
import { changedAt, digestOf, type OtherBuilds, otherBuilds, sentences } from "./other-builds.ts";

export interface BuildsOptions {
  launcher: Launcher;
  pool: Pool;
  /** the guest binary, and the command line of the egress process */
  guest: string;
  egress: string[];
  /** ids of the machines that run */
  machines: () => string[];
  /** resolves when an egress process has its settings */
  configured: () => Promise<void>;
  /** called with errors of background work */
  logError: (error: unknown) => void;
  /** called with what is of another build */
  warn: Warn;
}

/** how long a new egress process may take to start, and how often to check, in ms */
const patience = 10_000;
const pause = 20;

export class Builds implements BuildsPort {
  readonly #options: BuildsOptions;
  /** the programs that this daemon would start, as they were when it began */
  readonly #digest: string | undefined;
  readonly #openedAt = Date.now();
  /** whether the launcher of this process number is of another build: finding out reads the whole program */
  #known: { pid: number; isOther: boolean } | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(options: BuildsOptions) {
    this.#options = options;
    this.#digest = digestOf(options.guest);
  }

  /** replaces processes that no machine depends on, and reports the others */
  async open(): Promise<void> {
    await this.#replaceIdle();
    for (const sentence of sentences(this.#otherBuilds())) this.#options.warn(sentence);
  }

  others(): OtherParts {
    const { launcher, egress, netd } = this.#otherBuilds();
    return {
      ...(launcher !== undefined && { launcher: { pid: launcher, machines: this.#options.machines() } }),
      ...(egress !== undefined && { egress: { pid: egress, needsLauncher: netd === undefined } }),
    };
  }

  async replace(): Promise<ReplacedParts> {
    if (this.#isReplaced()) {
      const why = "another build was installed since this daemon began";
      throw new SandkeepError("conflict", `Cannot upgrade: ${why}; restart the daemon first; sandboxes keep running`);
    }
    const before = this.#otherBuilds();
    await this.#replaceIdle();
    const now = this.#otherBuilds();
    if (now.egress !== undefined && now.netd !== undefined) await this.#replaceEgress(now.netd);
    const after = this.#otherBuilds();
    return {
      ...(before.launcher !== undefined && after.launcher === undefined && { launcher: before.launcher }),
      ...(before.egress !== undefined && after.egress === undefined && { egress: before.egress }),
    };
  }

  /** a machine has ended: if it was the last one, the launcher can be replaced */
  released(): void {
    this.#replaceIdle().catch(this.#options.logError);
  }

  #otherBuilds(): OtherBuilds {
    const { launcher, guest, egress } = this.#options;
    return otherBuilds({ launcherPid: launcher.pid, guest, egress });
  }

  /** whether a newer build is installed: this daemon could not talk to processes of that build */
  #isReplaced(): boolean {
    const { guest, egress } = this.#options;
    return digestOf(guest) !== this.#digest || changedAt(egress) > this.#openedAt;
  }

  /** one after the other */
  #replaceIdle(): Promise<void> {
    const round = this.#round.then(() => this.#replaceIfIdle());
    this.#round = round.catch(() => undefined);
    return round;
  }

  async #replaceIfIdle(): Promise<void> {
    const { launcher, pool } = this.#options;
    if (!this.#isIdle() || !this.#isOther() || this.#isReplaced()) return;
    await pool.empty();
    try {
      // A boot that began meanwhile uses the launcher; the end of that machine leads here again.
      if (this.#isIdle() && (await launcher.machines()).length === 0) await launcher.replace();
    } finally {
      pool.fill();
    }
  }

  #isIdle(): boolean {
    return this.#options.machines().length === 0 && !this.#options.pool.isBusy;
  }

  #isOther(): boolean {
    const { pid } = this.#options.launcher;
    if (this.#known?.pid !== pid) this.#known = { pid, isOther: this.#otherBuilds().launcher !== undefined };
    return this.#known.isOther;
  }

  /** netd's end is the end of the keeper and of the egress process; the launcher starts them again */
  async #replaceEgress(netd: number): Promise<void> {
    process.kill(netd, "SIGKILL");
    const deadline = Date.now() + patience;
    while (this.#otherBuilds().egress !== undefined) {
      if (Date.now() > deadline)
        throw new SandkeepError("internal", "Cannot replace the egress process: it keeps running");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    await this.#options.configured();
  }
}
