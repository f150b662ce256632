/**
 * Pulls images for callers who name them: from registries that the operator lists, once for all who ask for the same one
 * meanwhile, few at a time. A pull that takes long holds up none of another team, and none takes longer than it may.
 */

import { FairSemaphore, QueueFull } from "../../../base/concurrency/fair-semaphore.ts";
import { SingleFlight } from "../../../base/concurrency/single-flight.ts";
import { unlessAborted } from "../../../base/concurrency/waits.ts";
import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import type {
  FetchedImage,
  FetchImageOptions,
  ImageInfo,
  PullImageOptions,
  PullProgress,
} from "../../../core/ports/images.ts";
import type { ImageStores } from "../oci/import.ts";
import type { RegistrySettings } from "./client.ts";
import type { Credentials } from "./credentials.ts";
import { pullImage } from "./pull.ts";
import { fullName, isListed, parseReference, type Reference, storedName } from "./reference.ts";

export interface PullerOptions {
  /** registries, or parts of them, that callers may name */
  registries: readonly string[];
  settings: RegistrySettings;
  credentials: Pick<Credentials, "find">;
  /** longest time of a pull, in ms */
  timeout: number;
  /** how long a pull may block others, in ms; default 5000 */
  patience?: number;
}

/** Callers who wait for the same pull. */
interface Waiting {
  calls: Set<(progress: PullProgress) => void>;
  last?: PullProgress;
}

/** pulls at a time that block others */
const mostPulls = 4;
/** pulls at a time that one team waits for; its further ones begin when one of these is over, however long that takes */
const mostOfTeam = 4;
/** images that one team may wait for besides */
const mostWaiting = 64;

export class Puller {
  readonly #stores: ImageStores;
  readonly #options: PullerOptions;
  readonly #pulls = new SingleFlight<ImageInfo>();
  /** the same for each team by itself, so that no team waits in the line of another */
  readonly #flights = new SingleFlight<ImageInfo>();
  readonly #ofTeam = new FairSemaphore({ ofTeam: mostOfTeam, waiting: mostWaiting });
  readonly #ofAll: FairSemaphore;
  /** those who wait for each reference, and how far its pull is */
  readonly #waiting = new Map<string, Waiting>();

  constructor(stores: ImageStores, options: PullerOptions) {
    this.#stores = stores;
    this.#options = options;
    this.#ofAll = new FairSemaphore({ ofAll: mostPulls, patience: options.patience ?? 5_000 });
  }

  /** lets the store's images be pulled */
  serve(): void {
    const { images } = this.#stores;
    images.pull = (name, team, how) => this.pull(name, team, how);
    images.checkReference = (reference, how) => void this.check(reference, how);
    images.fetch = (reference, how) => this.fetch(reference, how);
  }

  /** undefined where it is no name of an image that callers may pull, or leads to another reference than `onlyIf` */
  async pull(name: string, team: string, { onlyIf, progress }: PullImageOptions = {}): Promise<ImageInfo | undefined> {
    const reference = this.#allowed(name);
    if (!reference || (onlyIf !== undefined && onlyIf !== fullName(reference))) return undefined;
    // What the team, or the host from elsewhere, has under this name comes before what a registry has.
    const there = await this.#stores.images.get(storedName(reference), team);
    if (there && (there.owner !== undefined || there.source?.reference !== fullName(reference))) return there;
    // A tag may name another image by now, and a digest cannot.
    if (there && reference.digest !== undefined) return there;
    const pull = () => this.#ofAll.run(team, () => this.#pull(reference));
    const inTurn = () => this.#ofTeam.run(team, () => this.#pulls.run(fullName(reference), pull));
    const flight = () =>
      this.#flights.run(`${team} ${fullName(reference)}`, () => inTurn().catch(explained(reference)));
    return this.#told(fullName(reference), progress, flight);
  }

  /** throws if callers may not pull this, though an operator may pull it from anywhere */
  check(name: string, { fromAnywhere }: Pick<FetchImageOptions, "fromAnywhere">): Reference {
    const reference = parseReference(name);
    if (fromAnywhere || isListed(this.#options.registries, reference)) return reference;
    const why = `the operator does not list "${reference.registry}/${reference.repository}" in SANDKEEP_REGISTRIES`;
    throw new SandkeepError("forbidden", `Cannot pull "${fullName(reference)}": ${why}`);
  }

  /** the image that a caller asks for by itself: under another name, as a team's own, or from a registry that is not listed */
  async fetch(name: string, wanted: FetchImageOptions): Promise<FetchedImage> {
    const { team, owner, fromAnywhere, progress, signal } = wanted;
    const reference = this.check(name, wanted);
    if (!fromAnywhere && owner === undefined) {
      const before = await this.#stores.images.get(storedName(reference), team);
      const image = await unlessAborted(this.pull(name, team, { progress }), signal);
      if (!image)
        throw new SandkeepError("internal", `Cannot pull "${fullName(reference)}": it is not listed any more`);
      return { image, isNew: image.digest !== before?.digest };
    }
    const { registries, settings, credentials } = this.#options;
    const options = {
      ...{ settings, credentials, owner, signal, name: wanted.name, naming: wanted.naming },
      ...(wanted.withoutNode && { node: false as const }),
      isTrusted: fromAnywhere || isListed(named(registries), reference),
      received: (received: number, total: number) => progress?.({ received, total }),
    };
    const pull = () => this.#ofAll.run(team, () => pullImage(this.#stores, reference, options), signal);
    return this.#ofTeam.run(team, pull, signal).catch(explained(reference));
  }

  /** calls `progress` while the work waits for this reference, also if another caller began the pull */
  async #told<T>(reference: string, progress: PullImageOptions["progress"], work: () => Promise<T>): Promise<T> {
    if (!progress) return work();
    const waiting: Waiting = this.#waiting.get(reference) ?? { calls: new Set() };
    this.#waiting.set(reference, waiting);
    waiting.calls.add(progress);
    if (waiting.last) progress(waiting.last);
    try {
      return await work();
    } finally {
      waiting.calls.delete(progress);
      if (waiting.calls.size === 0) this.#waiting.delete(reference);
    }
  }

  #received(reference: string, received: number, total: number): void {
    const waiting = this.#waiting.get(reference);
    if (!waiting) return;
    waiting.last = { received, total };
    for (const call of waiting.calls) call(waiting.last);
  }

  #allowed(name: string): Reference | undefined {
    try {
      const reference = parseReference(name);
      return isListed(this.#options.registries, reference) ? reference : undefined;
    } catch (error) {
      if (isSandkeepError(error, "invalid")) return undefined;
      throw error;
    }
  }

  async #pull(reference: Reference): Promise<ImageInfo> {
    const { registries, settings, credentials, timeout } = this.#options;
    const late = new AbortController();
    const why = `Cannot pull "${fullName(reference)}": it took longer than ${timeout / 1000} s (SANDKEEP_PULL_TIMEOUT)`;
    const timer = setTimeout(() => late.abort(new SandkeepError("timeout", why)), timeout);
    const isTrusted = isListed(named(registries), reference);
    try {
      const received = (bytes: number, of: number) => this.#received(fullName(reference), bytes, of);
      const options = { settings, credentials, isTrusted, signal: late.signal, received };
      return (await pullImage(this.#stores, reference, options)).image;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** those that may be on a private network, because the operator lists them by name; "*" lists none by name */
function named(registries: readonly string[]): string[] {
  return registries.filter((entry) => entry !== "*");
}

function explained(reference: Reference): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof QueueFull)) throw error;
    const why = `this team waits for ${mostWaiting} other images already`;
    throw new SandkeepError("limit", `Cannot pull "${fullName(reference)}": ${why}`, { cause: error });
  };
}
