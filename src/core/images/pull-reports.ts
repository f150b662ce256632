/**
 * Reports how far the pull is that a create waits for: to the caller, if its API can say so, and as events of the
 * project. Of many creates that wait for the same image in a project, the first publishes events, one for each tenth.
 */

import type { Context } from "../context.ts";
import type { Owner, SandboxBase } from "../model/sandbox.ts";
import type { PullProgress } from "../ports/images.ts";
import { resolveBase, type WantedBase } from "./images.ts";

const steps = 10;

/** calls `report` at the first byte and at each tenth of a pull */
export function eachTenth(report: (progress: PullProgress) => void): (progress: PullProgress) => void {
  return eachShare(steps, report);
}

/** the same at each of so many equal parts */
export function eachShare(steps: number, report: (progress: PullProgress) => void): (progress: PullProgress) => void {
  let reached = -1;
  return (progress) => {
    const step = progress.total > 0 ? Math.floor((progress.received * steps) / progress.total) : 0;
    if (step <= reached) return;
    reached = step;
    report(progress);
  };
}

export class PullReports {
  readonly #context: Context;
  /** projects and images that have events now */
  readonly #reported = new Set<string>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** what a sandbox boots from; reports on the pull of an image that is not here */
  async base(owner: Owner, wanted: WantedBase): Promise<SandboxBase> {
    const { image } = wanted;
    if (image === undefined) return resolveBase(this.#context, owner, wanted);
    const name = typeof image === "string" ? image : image.name;
    const resolve = (pulling: WantedBase["pulling"]) => resolveBase(this.#context, owner, { ...wanted, pulling });
    return this.during(owner, name, resolve, wanted.pulling);
  }

  /** `work` calls its argument as bytes arrive; `pulled` is published if it did, and succeeded */
  async during<T>(
    { projectId }: Pick<Owner, "projectId">,
    image: string,
    work: (progress: (progress: PullProgress) => void) => Promise<T>,
    told?: (progress: PullProgress) => void,
  ): Promise<T> {
    const key = `${projectId} ${image}`;
    const isFirst = !this.#reported.has(key);
    if (isFirst) this.#reported.add(key);
    let isPulled = false;
    const publish = eachTenth((progress) => {
      isPulled = true;
      this.#context.events.publish(projectId, { type: "image.pulling", image, ...progress });
    });
    try {
      const result = await work((progress) => {
        told?.(progress);
        if (isFirst) publish(progress);
      });
      if (isPulled) this.#context.events.publish(projectId, { type: "image.pulled", image });
      return result;
    } finally {
      if (isFirst) this.#reported.delete(key);
    }
  }
}
