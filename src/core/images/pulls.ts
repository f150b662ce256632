/**
 * Pulls of images that callers ask for by themselves, and not by creating a sandbox. A team pulls from the registries that
 * the operator lists: as a create would, for the host, or as an image of its own. An operator pulls from any registry.
 */

import { Queue } from "../../base/concurrency/queue.ts";
import type { Quotas } from "../access/quotas.ts";
import type { SizedImage } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Owner } from "../model/sandbox.ts";
import type { FetchImageOptions, Naming, PullProgress } from "../ports/images.ts";
import { eachShare, PullReports } from "./pull-reports.ts";

export interface PullSpec {
  reference: string;
  /** its name here; default the reference in short */
  name?: string | undefined;
  /** whether our Node is left out */
  noNode?: boolean | undefined;
  /** whose image it will be; default the host's for an operator and for a pull like that of a create, else the team's */
  owner?: "host" | "team" | undefined;
  signal?: AbortSignal | undefined;
}

export type PullLine =
  | { type: "asking"; reference: string }
  | ({ type: "pulling" } & PullProgress)
  | ({ type: "pulled"; isNew: boolean } & SizedImage);

/** longest that a pull may take, in ms */
const longestPull = 3_600_000;
/** a bar needs no more */
const mostReports = 100;

export class Pulls {
  readonly #context: Context;
  readonly #quotas: Pick<Quotas, "withImageDisk">;
  readonly #reports: PullReports;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  constructor(context: Context, quotas: Pick<Quotas, "withImageDisk">) {
    this.#context = context;
    this.#quotas = quotas;
    this.#reports = new PullReports(context);
  }

  /** pulls while the caller reads the lines; a pull that others wait for, too, goes on without it */
  async pull(owner: Owner, spec: PullSpec): Promise<AsyncGenerator<PullLine>> {
    const { images, imageBuilds } = this.#context.runtime;
    const { fetch } = images;
    if (!fetch) throw new SandkeepError("unsupported", "Cannot pull an image: this daemon knows no registries");
    const wanted = this.#wanted(owner, spec);
    images.checkReference?.(spec.reference, wanted);
    this.#context.runtime.requireRoom();
    if (spec.name !== undefined) imageBuilds.checkName(spec.name);
    // Where the team's other images are too large already, not even a small one has room.
    if (wanted.owner !== undefined && spec.name !== undefined) {
      await wanted.naming?.(spec.name, [], async () => undefined);
    }
    return this.#lines(owner, spec, wanted, fetch);
  }

  /** aborts all pulls; resolves when their work has stopped */
  async close(): Promise<void> {
    this.#ending.abort(new SandkeepError("unavailable", "Cannot pull the image: the daemon is closing"));
    await Promise.all(this.#underWay);
  }

  #wanted({ teamId, admin = false }: Owner, spec: PullSpec): Omit<FetchImageOptions, "signal"> {
    const isChanged = spec.name !== undefined || spec.noNode === true;
    const { owner = admin || !isChanged ? "host" : "team" } = spec;
    if (owner === "host" && isChanged && !admin) {
      const why = "an image of the host under another name, or without Node, needs an admin key";
      throw new SandkeepError("forbidden", `Not authorized: ${why}`, { about: { kind: "key" } });
    }
    const { imageBuilds } = this.#context.runtime;
    const naming: Naming = (name, layers, put) =>
      this.#quotas.withImageDisk(teamId, () => imageBuilds.diskOf(teamId, { without: name, layers }), put);
    return {
      team: teamId,
      fromAnywhere: admin,
      name: spec.name,
      withoutNode: spec.noNode,
      ...(owner === "team" && { owner: teamId, naming }),
    };
  }

  async *#lines(
    owner: Owner,
    { reference, signal: given }: PullSpec,
    wanted: Omit<FetchImageOptions, "signal">,
    fetch: NonNullable<Context["runtime"]["images"]["fetch"]>,
  ): AsyncGenerator<PullLine> {
    const { images } = this.#context.runtime;
    const left = new AbortController();
    const late = new SandkeepError("timeout", `Cannot pull "${reference}": it took longer than an hour`);
    const timer = setTimeout(() => left.abort(late), longestPull).unref();
    const ends = [left.signal, this.#ending.signal, owner.ended, given];
    const signal = AbortSignal.any(ends.filter((each) => each !== undefined));
    const lines = new Queue<PullLine>(Number.POSITIVE_INFINITY);
    const tell = eachShare(mostReports, (progress) => void lines.put({ type: "pulling", ...progress }));
    const work = async () => {
      const pulling = (progress: (each: PullProgress) => void) =>
        fetch.call(images, reference, { ...wanted, progress, signal });
      const { image, isNew } = await this.#reports.during(owner, reference, pulling, tell);
      await lines.put({ type: "pulled", image, isNew, sizes: await images.sizes(image, owner.teamId) });
    };
    void lines.put({ type: "asking", reference });
    const working = work().then(
      () => lines.end(),
      (error) => lines.end(error),
    );
    this.#underWay.add(working);
    try {
      yield* lines;
    } finally {
      clearTimeout(timer);
      left.abort(new SandkeepError("gone", "Cannot pull the image: the client has gone"));
      await working;
      this.#underWay.delete(working);
    }
  }
}
